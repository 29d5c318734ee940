"""`tidegate tail`: where it starts, where it stops, how it decodes, and how it follows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

Run = Callable[..., Result]


def offsets(result: Result) -> list[int]:
    assert result.exit_code == 0, result.output
    return [json.loads(line)["offset"] for line in result.stdout.splitlines()]


def test_where_it_starts_and_stops(items: Any, run: Run) -> None:
    for number in range(25):
        items.add_row(number)
    tail = ("tail", items.topic, "--data", items.data, "--json")
    assert offsets(run(*tail)) == list(range(15, 25))
    assert offsets(run(*tail, "--limit", "3")) == [22, 23, 24]
    assert offsets(run(*tail, "--from-beginning", "--limit", "2")) == [0, 1]
    assert offsets(run(*tail, "--offset", "20")) == [20, 21, 22, 23, 24]
    assert offsets(run(*tail, "--offset", "25")) == []


def test_records_within_a_batch_before_the_offset_are_skipped(items: Any, run: Run) -> None:
    items.add(*((None, json.dumps(number).encode()) for number in range(5)))
    assert offsets(run("tail", items.topic, "--data", items.data, "--json", "--offset", "3")) == [3, 4]


def test_avro_json_and_other_bytes_are_shown(items: Any, run: Run) -> None:
    items.add_row(7)
    items.add((items.avro("key", {"id": 7}), None))
    items.add((None, b'{"payload": {"op": "u", "after": {"id": 8}}}'))
    items.add((b"\0\0\0\xff\xffbody", b"\xfe\xff"))
    lines = run("tail", items.topic, "--data", items.data, "--json", "--from-beginning").stdout.splitlines()
    first, tombstone, text, other = map(json.loads, lines)
    assert first["key"] == {"id": 7}
    assert first["value"] == {
        "before": None,
        "after": {"id": 7, "price": "12.50", "picture": "Af8="},
        "op": "c",
    }
    assert first["headers"] == {"origin": "test"}
    assert first["timestamp"] == 1_700_000_000_000
    assert (tombstone["key"], tombstone["value"]) == ({"id": 7}, None)
    assert text["value"]["payload"]["after"] == {"id": 8}
    assert other["key"] == {"base64": "AAAA//9ib2R5"}
    assert other["value"] == {"base64": "/v8="}


def test_text_lines_name_the_operation_and_the_row(items: Any, run: Run) -> None:
    items.add_row(7)
    items.add_row(7, op="d")
    items.add((items.avro("key", {"id": 7}), None))
    created, deleted, tombstone = run("tail", items.topic, "--data", items.data).stdout.splitlines()
    assert created.startswith("0  2023-11-14 22:13:20  c  ")
    assert '{"id": 7, "price": "12.50"' in created
    assert "  d  " in deleted
    assert '"price": "12.50"' in deleted
    assert tombstone.endswith('tombstone  {"id": 7}')


def test_json_with_its_schema_is_shown_without_it(items: Any, run: Run) -> None:
    items.add(
        (
            b'{"schema": {}, "payload": {"id": 1}}',
            b'{"schema": {}, "payload": {"op": "c", "after": {"id": 1}}}',
        )
    )
    (line,) = run("tail", items.topic, "--data", items.data).stdout.splitlines()
    assert line.endswith('c  {"id": 1}  {"id": 1}')


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nosuch",), 1, "shop.public.items"),
        (("shop.public.items", "--offset", "9"), 1, "offset 9"),
        (("shop.public.items", "--offset", "0", "--from-beginning"), 2, "two places to start"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    items: Any, run: Run, arguments: tuple[str, ...], code: int, words: str
) -> None:
    items.add_row(1)
    result = run("tail", *arguments, "--data", items.data)
    assert result.exit_code == code
    assert words in result.stderr


def test_follow_is_woken_by_a_commit(items: Any) -> None:
    items.add_row(0)
    command = [sys.executable, "-m", "gateway.cli", "tail", items.topic, "--data", str(items.data), "--json"]
    with subprocess.Popen(
        [*command, "--follow", "--limit", "3"], stdout=subprocess.PIPE, text=True
    ) as follower:
        try:
            assert follower.stdout is not None
            seen = []
            for number in range(1, 3):
                seen.append(json.loads(follower.stdout.readline())["offset"])
                items.add_row(number)
            seen.append(json.loads(follower.stdout.readline())["offset"])
            assert seen == [0, 1, 2]
            assert follower.wait(10) == 0
        finally:
            follower.kill()
