"""Follows the tables of the stream: each Relation message becomes a plan, with its topic and schemas."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from capture.envelope import Encoder, EnvelopeError, Plan, Table, message_plan, plan_for, topic_name
from capture.errors import CaptureError
from capture.log import SchemaStore
from capture.log.memory import CaptureMemory
from capture.options import CaptureOptions
from capture.postgres.connection import Connection
from capture.postgres.log_sink import LogSink
from capture.postgres.pgoutput import Message, Relation
from capture.postgres.relation_catalog import CatalogTable, read_tables
from capture.postgres.table_shape import KnownTable, knowledge_of, table_of_catalog, table_of_stream
from capture.postgres.type_catalog import TypeCatalog

log = logging.getLogger(__name__)

_RELATION_KEY: Final = "relation:"
_ABSENT_KEY: Final = "absent"


class RelationTracker:
    """What is known of each captured relation, kept in the capture's memory."""

    def __init__(
        self, options: CaptureOptions, schemas: SchemaStore, memory: CaptureMemory, sink: LogSink
    ) -> None:
        self._options = options
        self._schemas = schemas
        self._memory = memory
        self._sink = sink
        self._types = TypeCatalog()
        entries = memory.read()
        self._known = {
            int(key.removeprefix(_RELATION_KEY)): KnownTable.from_json(text)
            for key, text in entries.items()
            if key.startswith(_RELATION_KEY)
        }
        # Known (their keys still count) but not captured for a while, so their changes have a gap.
        self._absent: frozenset[int] = frozenset(json.loads(entries.get(_ABSENT_KEY, "[]")))
        self._plans: dict[Table, Plan] = {}
        self._described: dict[int, Relation] = {}
        self._planned: set[int] = set()

    @property
    def known(self) -> frozenset[int]:
        """The relations that are captured without a gap; those to be read may be among them."""
        return frozenset(self._known) - self._absent

    def forget_others(self, captured: Iterable[CatalogTable]) -> None:
        """Hold durably that only these are captured now, so that others are read anew if they come back.

        What is known of them stays: changes from before may still come, and need their key.
        """
        gone = self.known - {table.oid for table in captured}
        if gone:
            self._keep_absent(self._absent | gone)
            log.info("tables are not captured any more", extra={"tables": self._names(gone)})

    def plan_of_snapshot(self, connection: Connection, now: CatalogTable) -> Plan:
        """The plan to read a table's rows by, as the catalog describes it now."""
        self._types.read(connection, (column.type_oid for column in now.columns))
        table = table_of_catalog(now, self._types, self._options)
        return self._plan(table)

    def remember(self, tables: Mapping[int, CatalogTable], connection: Connection) -> None:
        """Keep what the catalog says of these tables, as a base for the stream that follows.

        From here on they count as captured, so the log has to hold before that they are to be read.
        """
        self._types.read(
            connection, {column.type_oid for table in tables.values() for column in table.columns}
        )
        found = {}
        for oid, now in tables.items():
            table = table_of_catalog(now, self._types, self._options)
            found[oid] = knowledge_of(table, now, self._known.get(oid))
        self._keep(found)
        returned = self._absent & found.keys()
        if returned:
            self._keep_absent(self._absent - returned)
            log.warning(
                "tables come back that have missed changes: they are read anew if snapshot.mode allows it",
                extra={"tables": self._names(returned)},
            )

    def new_stream(self) -> None:
        """On a new connection, with a new encoder, the server describes each relation again."""
        self._described.clear()
        self._planned.clear()

    def describe(self, relation: Relation, encoder: Encoder) -> None:
        """Take note of a Relation message; the plan is made at the first change.

        With publish_via_partition_root partitions are described as well, whose changes come as their root's.
        """
        if self._options.tables.accepts(relation.schema, relation.name):
            self._described[relation.oid] = relation
            encoder.drop_relation(relation.oid)
        else:
            encoder.ignore_relation(relation.oid)

    def plan_changes(self, oids: Iterable[int], connection: Connection, encoder: Encoder) -> bool:
        """Have the encoder write changes of these relations; false if one was never described."""
        for oid in oids:
            if oid in self._described:
                self._follow(self._described.pop(oid), connection, encoder)
            elif oid not in self._planned:
                return False
        return True

    def _follow(self, relation: Relation, connection: Connection, encoder: Encoder) -> None:
        now = read_tables(connection, [relation.oid], impatient=True).get(relation.oid)
        self._types.read(connection, (column.type_oid for column in relation.columns))
        known = self._known.get(relation.oid)
        table = table_of_stream(relation, now, known, self._types, self._options)
        encoder.set_relation(relation.oid, self._plan(table), range(len(relation.columns)))
        self._planned.add(relation.oid)
        self._keep({relation.oid: knowledge_of(table, now, known)})

    def emit(self, message: Message, encoder: Encoder, now_ns: int) -> None:
        """Write a logical decoding message."""
        plan = message_plan(self._options.envelope, ids=self._schemas.register)
        self._sink.partition(plan.topic)
        encoder.set_message_plan(plan)
        encoder.emit_message(
            message.prefix, message.content, message.lsn.value, message.transactional, now_ns
        )

    def _plan(self, table: Table) -> Plan:
        plan = self._plans.get(table)
        if plan is not None:
            return plan
        topic = topic_name(self._options.envelope, table.schema, table.name)
        try:
            plan = plan_for(table, self._options.envelope, topic=topic, ids=self._schemas.register)
        except EnvelopeError as error:
            raise CaptureError(str(error), "") from error
        self._sink.partition(topic)
        self._plans[table] = plan
        if plan.unmapped:
            log.warning(
                "columns left out, their types have no mapping (include.unknown.datatypes=true brings them)",
                extra={"table": table.qualified_name, "columns": ", ".join(plan.unmapped)},
            )
        log.info(
            "table planned", extra={"table": table.qualified_name, "topic": topic, "key": list(table.key)}
        )
        return plan

    def _keep(self, found: Mapping[int, KnownTable]) -> None:
        new = {oid: knowledge for oid, knowledge in found.items() if self._known.get(oid) != knowledge}
        if new:
            self._memory.put({f"{_RELATION_KEY}{oid}": knowledge.to_json() for oid, knowledge in new.items()})
            self._known.update(new)

    def _keep_absent(self, oids: frozenset[int]) -> None:
        self._memory.put({_ABSENT_KEY: json.dumps(sorted(oids))})
        self._absent = oids

    def _names(self, oids: Iterable[int]) -> str:
        return ", ".join(sorted(self._known[oid].qualified_name for oid in oids))
