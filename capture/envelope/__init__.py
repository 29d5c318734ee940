"""Rows to record-batch bytes: Debezium's envelope in Avro or JSON (design.md "Capture", debezium/01 to 04).

A `Plan` says how a table is written; an `Encoder` runs plans over the replication stream and over snapshot
rows and gives finished record batches. There are two encoders of the same output: a compiled one (Cython),
and one that generates Python, for where there is no compiler and as the other's oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from capture.envelope.batches import Output
from capture.envelope.errors import EnvelopeError, InvalidName, MalformedMessage, UnrepresentableValue
from capture.envelope.generated import COMMITTED, FED, NEEDS_PYTHON, GeneratedEncoder
from capture.envelope.layout import SnapshotMarker
from capture.envelope.message_value import MessagePlan, message_plan
from capture.envelope.names import message_topic, topic_name
from capture.envelope.options import EnvelopeOptions
from capture.envelope.plan import Plan, copy_columns, plan_for
from capture.envelope.table import Column, Table, TypeInfo

__all__ = [
    "COMMITTED",
    "COMPILED",
    "FED",
    "NEEDS_PYTHON",
    "Column",
    "Encoder",
    "EnvelopeError",
    "EnvelopeOptions",
    "InvalidName",
    "MalformedMessage",
    "MessagePlan",
    "Output",
    "Plan",
    "SnapshotMarker",
    "Table",
    "TypeInfo",
    "UnrepresentableValue",
    "copy_columns",
    "message_plan",
    "message_topic",
    "new_encoder",
    "plan_for",
    "topic_name",
]


def _compiled() -> Callable[[EnvelopeOptions], Encoder] | None:
    try:
        from capture.envelope.encoder import CompiledEncoder
    except ImportError:
        return None
    return CompiledEncoder


#: Whether the compiled encoder can be imported.
COMPILED: Final = _compiled() is not None


class Encoder(Protocol):
    """Turns a pgoutput stream and snapshot rows into record batches.

    Not safe for several threads at once. After an error the failed message has left no trace.
    """

    #: Transactions whose Begin.final_lsn is below this are skipped: they are in the log already.
    resume_lsn: int
    #: `source.sequence[0]`: the end of the last commit; restored from the position at a start.
    last_commit_lsn: int | None

    @property
    def compiled(self) -> bool:
        """Whether this is the compiled encoder."""

    @property
    def in_transaction(self) -> bool:
        """Between Begin and Commit."""

    @property
    def commit_end_lsn(self) -> int:
        """End of the last commit, or of the last non-transactional message, whose LSN is its end."""

    @property
    def pending_bytes(self) -> int:
        """Uncompressed bytes of records not taken yet."""

    @property
    def counters(self) -> dict[tuple[str, str], int]:
        """Events written so far by (topic, op); tombstones are not counted."""

    def set_relation(self, relation_oid: int, plan: Plan, column_map: Sequence[int]) -> None:
        """Encode changes of a relation by `plan`.

        Message column i is the plan's column `column_map[i]`, or none of them for -1.
        """

    def ignore_relation(self, relation_oid: int) -> None:
        """Drop changes of a relation that is not captured."""

    def drop_relation(self, relation_oid: int) -> None:
        """Forget a relation: its next change asks for Python."""

    def hide(self, relation_oid: int, visible: Callable[[int], bool]) -> None:
        """Skip changes of transactions that the relation's snapshot saw; asked once per Begin, by xid."""

    def unhide(self, relation_oid: int) -> None:
        """Stop hiding."""

    def set_message_plan(self, plan: MessagePlan | None) -> None:
        """Where logical decoding messages go."""

    def feed(self, data: bytes | memoryview, now_ns: int) -> int:
        """Take one CopyData payload that starts with `w`: FED, COMMITTED or NEEDS_PYTHON.

        NEEDS_PYTHON (Relation, Type, Message, or a change of an unknown relation) leaves all as it was.
        Raises MalformedMessage, or UnrepresentableValue for a value that its NOT NULL column cannot show.
        """

    def emit_message(self, prefix: str, content: bytes, lsn: int, transactional: bool, now_ns: int) -> bool:
        """Write a logical decoding message; true if it is complete at once (non-transactional)."""

    def set_snapshot(self, lsn: int, txid: int, ts_us: int) -> None:
        """What `source` of the following snapshot rows says: consistent point, xid, database clock (Unix)."""

    def feed_copy(
        self, relation: int | Plan, row: bytes | memoryview, marker: SnapshotMarker, now_ns: int
    ) -> None:
        """Take one tuple of COPY BINARY: the fields of `copy_columns(plan)`, in that order."""

    def take(self, *, include_open: bool = False) -> list[Output]:
        """The finished batches of complete transactions (of all records with `include_open`), in order."""

    def discard_open(self) -> None:
        """Forget the open transaction: the connection ended inside it and it will be sent again."""


def new_encoder(options: EnvelopeOptions, *, compiled: bool | None = None) -> Encoder:
    """An encoder; `compiled` None takes the compiled one where it is there."""
    if compiled is None:
        compiled = COMPILED
    if not compiled:
        return GeneratedEncoder(options)
    encoder = _compiled()
    if encoder is None:
        raise RuntimeError("the compiled encoder is not built; run `python setup.py build_ext --inplace`")
    return encoder(options)
