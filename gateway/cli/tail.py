"""`tidegate tail`: the records of a topic, decoded, from the log itself."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.decoding import Decoder
from gateway.cli.settings import (
    Arguments,
    Refusal,
    UsageRefusal,
    configuration,
    data_options,
    json_option,
    open_log,
    refusing,
)

if TYPE_CHECKING:
    from capture.log import Listener, Log, LogReader, PartitionReader
    from protocol.records import Record

_LAST: Final = 10
_READ_BYTES: Final = 1 << 20
# A doorbell that was lost would be found by this look at the catalog.
_LOOK_EVERY_S: Final = 5.0


@click.command(name="tail")
@click.argument("topic")
@data_options
@click.option("--from-beginning", is_flag=True, help="Start at the first record.")
@click.option("--offset", type=click.IntRange(0), metavar="N", help="Start at offset N.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N records.")
@click.option("--follow", "-f", is_flag=True, help="Go on with new records as they are committed.")
@json_option
def command(
    topic: str,
    from_beginning: bool,
    offset: int | None,
    limit: int | None,
    follow: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Print the records of TOPIC with keys and values decoded, read from the log itself.

    Without --from-beginning or --offset, the last ten records (or the last --limit). One line a record:
    offset, operation, key and row; with --json, one JSON object a line with everything.
    """
    if from_beginning and offset is not None:
        raise UsageRefusal("--from-beginning and --offset are two places to start: give one of them")
    with refusing():
        log = open_log(configuration(Arguments(**given)))
        tail = Tail(log, topic)
        decoder = Decoder(log.schemas)
        show = _json_line if as_json else _text_line
        start = tail.start(
            from_beginning=from_beginning, offset=offset, last=_LAST if limit is None else limit
        )
        try:
            for count, record in enumerate(tail.records(start, follow=follow), start=1):
                click.echo(show(topic, record, decoder))
                if follow:
                    sys.stdout.flush()
                if count == limit:
                    return
        except KeyboardInterrupt:
            return


class Tail:
    """Reads one topic (of one partition) offset by offset."""

    def __init__(self, log: Log, topic: str) -> None:
        from capture.log import LogReader

        self._log = log
        self._reader: LogReader = LogReader(log)
        self._reader.refresh()
        found = self._reader.topics.get(topic)
        if found is None:
            known = ", ".join(sorted(self._reader.topics)) or "none"
            raise Refusal(f"there is no topic {topic!r} (topics: {known})")
        self._partition: PartitionReader = self._reader.partition(found.partitions[0].partition_id)

    def start(self, *, from_beginning: bool, offset: int | None, last: int) -> int:
        """The offset to begin at; raises Refusal for one that the topic does not have."""
        first, end = self._partition.log_start_offset, self._partition.high_watermark
        if from_beginning:
            return first
        if offset is None:
            return max(first, end - last)
        if not first <= offset <= end:
            raise Refusal(f"offset {offset} is not in the topic: it holds {first} up to {end}")
        return offset

    def records(self, offset: int, *, follow: bool) -> Iterator[Record]:
        """Records from an offset on; with `follow` it waits for more and never ends by itself."""
        from capture.log import Listener
        from protocol.records import batches, records

        listener = Listener(self._log.data) if follow else None
        try:
            while True:
                view = self._partition.read(offset, _READ_BYTES)
                if view is None:
                    if listener is None:
                        return
                    self._wait(listener)
                    continue
                for position, _ in batches(view):
                    for record in records(view, position=position):
                        if record.offset >= offset:
                            offset = record.offset + 1
                            yield record
        finally:
            if listener is not None:
                listener.close()

    def _wait(self, listener: Listener) -> None:
        select.select([listener.fileno()], [], [], _LOOK_EVERY_S)
        listener.drain()
        self._reader.refresh()


def _json_line(topic: str, record: Record, decoder: Decoder) -> str:
    document = {
        "topic": topic,
        "partition": 0,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": decoder.decode(record.key),
        "value": decoder.decode(record.value),
        "headers": {name: _header(value) for name, value in record.headers},
    }
    return json.dumps(document, ensure_ascii=False)


def _header(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _text_line(topic: str, record: Record, decoder: Decoder) -> str:
    time = datetime.fromtimestamp(record.timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    key, value = _payload(decoder.decode(record.key)), _payload(decoder.decode(record.value))
    op, row = "tombstone" if value is None else "", value
    if isinstance(value, dict) and "op" in value:
        op, row = str(value["op"]), value.get("after") or value.get("before")
    parts = [str(record.offset), time, op, _compact(key), _compact(row)]
    return "  ".join(part for part in parts if part)


def _payload(value: object) -> object:
    """What JSON with its schema beside it (schemas.enable) carries; anything else as it is."""
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        return value["payload"]
    return value


def _compact(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
