"""Markers and ranges of one table of a snapshot, whoever reads what first."""

from __future__ import annotations

import pytest

from capture.envelope import SnapshotMarker
from capture.postgres.publication import Streamed
from capture.postgres.relation_catalog import CatalogTable
from capture.postgres.snapshot_table import RANGE_BLOCKS, Place, Range, SnapshotTable, ranges_of

TABLE = CatalogTable(1, "public", 'a "t"', False, None, "d", 0, 1)
FIRST, LAST = SnapshotMarker.FIRST, SnapshotMarker.LAST
FIRST_HERE, LAST_HERE = SnapshotMarker.FIRST_IN_DATA_COLLECTION, SnapshotMarker.LAST_IN_DATA_COLLECTION


def table(*, first: bool = False, last: bool = False, ranges: int = 1) -> SnapshotTable:
    made = SnapshotTable(TABLE, None, Place(first, last))
    made.expect(ranges)
    return made


def row(number: int) -> memoryview:
    return memoryview(bytes([number]))


@pytest.mark.parametrize(
    ("blocks", "split", "starts"),
    [
        (0, True, [0]),
        (2 * RANGE_BLOCKS - 1, True, [0]),
        (2 * RANGE_BLOCKS + 1, False, [0]),
        (2 * RANGE_BLOCKS + 1, True, [0, RANGE_BLOCKS, 2 * RANGE_BLOCKS]),
    ],
)
def test_large_tables_are_split_without_gap(blocks: int, split: bool, starts: list[int]) -> None:
    found = ranges_of([("public", "t", 1, blocks)], split=split)
    assert [part.start for part in found] == starts
    assert [part.end for part in found] == [*starts[1:], None]


def test_the_statement_of_a_range() -> None:
    part = Range("public", 'a "t"', 1, 10, 20)
    assert table().copy_statement(part, ['"id"', '"v"::text']) == (
        'COPY (SELECT "id", "v"::text FROM ONLY "public"."a ""t""" '
        "WHERE ctid >= '(10,0)'::tid AND ctid < '(20,0)'::tid) TO STDOUT (FORMAT binary)"
    )
    filtered = SnapshotTable(TABLE, Streamed(None, "(id > 1)"), Place(False, False))
    assert filtered.copy_statement(Range("s", "t", 1, 0, None), []) == (
        'COPY (SELECT  FROM ONLY "s"."t" WHERE ((id > 1))) TO STDOUT (FORMAT binary)'
    )


def test_the_last_row_is_known_only_when_all_ranges_are_read() -> None:
    each = table(ranges=3)
    assert each.range_done(row(1)) == ([], False)
    assert each.range_done(None) == ([], False)
    released, complete = each.range_done(row(2))
    assert (released, complete) == ([row(1)], True)
    assert each.final_row == row(2)


def test_an_empty_last_range_leaves_the_row_that_was_held() -> None:
    each = table(ranges=2)
    each.range_done(row(1))
    assert each.range_done(None) == ([], True)
    assert each.final_row == row(1)


def test_one_worker_takes_the_first_marker() -> None:
    each = table()
    assert [each.take_first(), each.take_first()] == [True, False]


@pytest.mark.parametrize(
    ("first", "last", "markers"),
    [
        (False, False, (FIRST_HERE, LAST_HERE)),
        (True, False, (FIRST, LAST_HERE)),
        (False, True, (FIRST_HERE, LAST)),
        (True, True, (FIRST, LAST)),
    ],
)
def test_markers_of_a_table_with_several_rows(
    first: bool, last: bool, markers: tuple[SnapshotMarker, SnapshotMarker]
) -> None:
    each = table(first=first, last=last)
    assert each.take_first()
    assert (each.first_marker(), each.last_marker()) == markers


@pytest.mark.parametrize(
    ("first", "last", "marker"),
    [(False, False, LAST_HERE), (True, False, FIRST), (False, True, LAST), (True, True, LAST)],
)
def test_the_marker_of_a_single_row(first: bool, last: bool, marker: SnapshotMarker) -> None:
    assert table(first=first, last=last).last_marker() is marker
