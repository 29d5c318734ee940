"""A torn tail is cut off, a flipped bit in what was committed is a clear error; everything else goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from protocol.records import batches
from tests.support import consume, shop
from tests.support.live import LiveShop


def segment(live: LiveShop, table: str) -> Path:
    """The newest segment file of a table's topic."""
    folder = live.service.data / "topics" / f"{live.service.topic(table)}-0"
    return max(folder.glob("*.log"))


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\x00" * 5000, id="zeros"),
        pytest.param(os.urandom(777), id="garbage"),
        pytest.param(None, id="half-a-batch"),
    ],
)
def test_a_torn_tail_is_cut(database: str, tmp_path: Path, tail: bytes | None) -> None:
    shop.create(database)
    with LiveShop(database, tmp_path / "data") as live:
        live.workload.run(30)
        before = live.settle()
        live.service.stop()
        for table in shop.TABLES:
            path = segment(live, table)
            data = path.read_bytes()
            with path.open("ab") as file:
                file.write(data[: len(data) // 2] if tail is None else tail)
        live.service.start()
        live.workload.run(30)
        after = live.settle()
        for name, records in before.items():
            assert after[name][: len(records)] == records
        assert live.differences(live.folded(after)) == []


@pytest.mark.parametrize("where", ["record", "header", "short"])
def test_damage_to_what_was_committed_is_an_error(database: str, tmp_path: Path, where: str) -> None:
    shop.create(database)
    with LiveShop(database, tmp_path / "data") as live:
        live.workload.run(30)
        before = live.settle()
        live.service.stop()
        path = segment(live, "orders")
        data = bytearray(path.read_bytes())
        if where == "short":
            os.truncate(path, len(data) - 10)
        else:
            *_, (last, _) = batches(data)
            data[-5 if where == "record" else last + 20] ^= 0x10
            path.write_bytes(data)
        live.service.start()
        assert live.service.process is not None
        event = live.service.process.event("ended")
        assert event["worker"] == live.service.prefix
        assert event["retry_in_s"] is None, "trying again cannot help"
        assert str(path) in event["error"]
        assert "Restore" in event["error"]
        others = [name for name in live.topics if name != live.service.topic("orders")]
        again = consume.read(live.service.kafka, others)
        assert again == {name: before[name] for name in others}
        assert len(live.service.pids("gateway")) == 1


def test_lost_and_damaged_indexes_are_made_anew(database: str, tmp_path: Path) -> None:
    shop.create(database)
    with LiveShop(database, tmp_path / "data") as live:
        live.workload.run(30)
        before = live.settle()
        live.service.stop()
        for number, table in enumerate(shop.TABLES):
            for suffix in (".index", ".timeindex"):
                index = segment(live, table).with_suffix(suffix)
                match number % 3:
                    case 0:
                        index.unlink(missing_ok=True)
                    case 1:
                        index.write_bytes(os.urandom(64))
                    case _:
                        index.write_bytes(b"\xff" * 33)
        live.service.start()
        live.workload.run(10)
        after = live.settle()
        for name, records in before.items():
            assert after[name][: len(records)] == records
