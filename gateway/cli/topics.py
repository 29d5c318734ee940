"""`tidegate topics`: the topics of a change log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gateway.cli.output import print_json, print_table
from gateway.cli.settings import Arguments, configuration, data_options, json_option, open_log, refusing

if TYPE_CHECKING:
    from capture.log import Topic


@click.command(name="topics")
@data_options
@json_option
def command(as_json: bool, **given: Any) -> None:
    """List the topics of the change log: which capture writes each, and its offsets."""
    with refusing():
        config = configuration(Arguments(**given))
        topics = open_log(config).catalog.topics()
    if as_json:
        print_json([_as_json(topic) for topic in topics])
        return
    rows = [
        (topic.name, topic.capture, row.index, row.log_start_offset, row.high_watermark)
        for topic in topics
        for row in topic.partitions
    ]
    headings = ("topic", "capture", "partition", "log start", "high watermark")
    print_table(headings, rows, empty=f"{config.log.data}: no topics yet")


def _as_json(topic: Topic) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id),
        "capture": topic.capture,
        "config": dict(topic.config),
        "partitions": [
            {
                "partition": row.index,
                "log_start_offset": row.log_start_offset,
                "high_watermark": row.high_watermark,
            }
            for row in topic.partitions
        ],
    }
