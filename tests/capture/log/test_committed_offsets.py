"""Committed offsets: stored whole, found by group, forgotten on demand."""

from __future__ import annotations

import uuid
from pathlib import Path

from capture.log import CommittedOffset, CommittedOffsets, Log


def test_commits_are_stored_replaced_and_forgotten(log: Log) -> None:
    offsets = CommittedOffsets(log.data)
    one, two = uuid.uuid4(), uuid.uuid4()
    offsets.commit("g", {(one, 0): (5, 0, "note"), (two, 1): (7, -1, None)}, 1000)
    offsets.commit("g", {(one, 0): (6, 0, None)}, 2000)
    offsets.commit("h", {(one, 0): (1, 0, "")}, 3000)
    expected = {(one, 0): CommittedOffset(6, 0, None, 2000), (two, 1): CommittedOffset(7, -1, None, 1000)}
    assert offsets.fetch("g") == expected
    assert offsets.fetch("g", [(two, 1), (two, 0)]) == {(two, 1): expected[two, 1]}
    assert offsets.fetch("nobody") == {}
    assert offsets.groups() == ["g", "h"]
    offsets.delete("g", [(two, 1)])
    assert offsets.fetch("g") == {(one, 0): expected[one, 0]}
    offsets.delete("g")
    assert offsets.groups() == ["h"]
    offsets.close()
    again = CommittedOffsets(log.data)
    assert again.fetch("h") == {(one, 0): CommittedOffset(1, 0, "", 3000)}
    again.close()


def test_they_stand_in_a_file_of_their_own(log: Log) -> None:
    offsets = CommittedOffsets(log.data)
    with log.catalog.database.write():
        # While a capture commits, consumers' commits go on.
        offsets.commit("g", {(uuid.uuid4(), 0): (1, 0, None)}, 1)
    offsets.close()
    assert Path(log.data / "groups.sqlite").exists()
