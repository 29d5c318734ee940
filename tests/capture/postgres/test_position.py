"""A capture's position: what it keeps, and how it moves."""

import pytest

from capture.lsn import Lsn
from capture.postgres.position import HiddenTables, Position
from capture.postgres.visibility import TransactionSnapshot

SEEN = TransactionSnapshot.parse("10:20:15")


def hidden(until: int, *relations: int) -> HiddenTables:
    return HiddenTables(SEEN, Lsn(until), frozenset(relations))


@pytest.mark.parametrize(
    "position",
    [
        Position(Lsn(0)),
        Position(Lsn(5), last_commit_lsn=4),
        Position(Lsn(5), pending=frozenset({1, 2}), begun=True),
        Position(Lsn(1 << 60), 7, frozenset({1}), False, (hidden(9, 3, 4),)),
        Position(Lsn(5), dropped=True),
    ],
)
def test_survives_the_log(position: Position) -> None:
    assert Position.from_json(position.to_json()) == position


def test_a_settled_position_is_small() -> None:
    assert Position(Lsn(0x16B374D848), 5).to_json() == '{"format":1,"lsn":"16/B374D848","last_commit_lsn":5}'


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "lsn": "0/0"}', '{"format": 1, "lsn": "x"}'])
def test_refuses_what_it_did_not_write(text: str) -> None:
    with pytest.raises(ValueError):
        Position.from_json(text)


def test_advances_and_never_goes_back() -> None:
    position = Position(Lsn(10), 5)
    assert position.advanced(Lsn(12), 11) == Position(Lsn(12), 11)
    assert position.advanced(Lsn(8), 5).lsn == Lsn(10)


def test_hides_until_the_stream_has_passed() -> None:
    position = Position(Lsn(1), hidden=(hidden(10, 1), hidden(20, 2)))
    assert position.advanced(Lsn(9), None).hidden == position.hidden
    assert position.advanced(Lsn(10), None).hidden == (hidden(20, 2),)
    assert position.advanced(Lsn(30), None).hidden == ()


def test_tables_of_one_snapshot_are_kept_together() -> None:
    position = Position(Lsn(1), pending=frozenset({1, 2, 3}))
    position = position.with_read(frozenset({1}), hidden(10))
    position = position.with_read(frozenset({2}), hidden(10))
    assert position == Position(Lsn(1), None, frozenset({3}), True, (hidden(10, 1, 2),))
    assert position.with_read(frozenset({3}), None).hidden == (hidden(10, 1, 2),)
    assert position.without_pending(frozenset({3})).pending == frozenset()
