"""What a database lacks before it can be captured: what, where, and the exact statement that mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import psycopg

from capture.errors import CaptureError
from capture.options import CaptureOptions
from capture.postgres.connection import Connection, connect, failure
from capture.postgres.finding import ERROR, INFO, WARNING, Finding
from capture.postgres.publication import FILTERED, Publication, captured, read_publication
from capture.postgres.relation_catalog import CatalogTable, list_tables, read_tables
from capture.postgres.server_findings import role_findings, server_findings, slot_findings
from capture.postgres.table_findings import (
    collision_findings,
    identity_findings,
    match_findings,
    privilege_findings,
    publication_findings,
)

__all__ = ["ERROR", "INFO", "WARNING", "Finding", "examine", "examine_connected"]

_OLDEST: Final = 100000


def examine(options: CaptureOptions) -> list[Finding]:
    """Everything that is amiss, errors first. Changes nothing; a database that refuses is a finding."""
    try:
        connection = connect(options.connection, f"tidegate {options.name} doctor")
    except CaptureError as error:
        return [Finding(ERROR, error.what, options.connection.address, error.remedy, error.retry)]
    try:
        with connection:
            found = list(examine_connected(connection, options))
    except psycopg.Error as error:
        problem = failure(error, "the examination broke off")
        found = [Finding(ERROR, problem.what, options.connection.address, problem.remedy, problem.retry)]
    ranks = {ERROR: 0, WARNING: 1, INFO: 2}
    return sorted(found, key=lambda finding: ranks[finding.severity])


def examine_connected(connection: Connection, options: CaptureOptions) -> Iterator[Finding]:
    """The same, over a connection that is there."""
    version = connection.info.server_version
    if version < _OLDEST:
        yield Finding(
            ERROR, f"PostgreSQL {version // 10000} has no pgoutput", "the server", "Use 10 or newer."
        )
        return
    tables = list_tables(connection)
    publication = read_publication(connection, options.publication.name, tables)
    streams = options.snapshot.mode != "initial_only"
    if streams:
        yield from server_findings(connection)
        yield from role_findings(connection)
        yield from slot_findings(connection, options, publication)
        yield from publication_findings(connection, options, tables, publication)
    chosen = _chosen(tables, publication if streams else None, options)
    yield from match_findings(options, tables, chosen)
    details = list(read_tables(connection, [table.oid for table in chosen], impatient=True).values())
    yield from privilege_findings(connection, options, chosen)
    yield from collision_findings(options, chosen)
    if streams:
        yield from identity_findings(options, details, publication)


def _chosen(
    tables: Sequence[CatalogTable], publication: Publication | None, options: CaptureOptions
) -> list[CatalogTable]:
    """The tables that will be captured, also if the publication is still to be made or altered."""
    if publication is None or (options.publication.autocreate == FILTERED and not publication.all_tables):
        if publication is not None:
            settings = replace(options.publication, via_partition_root=publication.via_partition_root)
            options = replace(options, publication=settings)
        return captured(tables, None, options)
    return captured(tables, publication, options)
