"""The configuration of topics and of the broker by Kafka's names, as it really is in force.

What Kafka knows and this log does differently is not listed: a setting that is shown is one that holds.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from capture.log import Topic
from capture.log.writer import INDEX_INTERVAL_BYTES, SEGMENT_BYTES


class ConfigType(IntEnum):
    """As DescribeConfigs numbers them (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it (KIP-226)."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class Config(NamedTuple):
    """One setting in force."""

    name: str
    value: str
    kind: ConfigType
    source: ConfigSource
    documentation: str


_TOPIC: Final = (
    ("cleanup.policy", "delete", ConfigType.LIST, "What becomes of old segments."),
    ("compression.type", "producer", ConfigType.STRING, "Batches stay as the capture compressed them."),
    (
        "index.interval.bytes",
        str(INDEX_INTERVAL_BYTES),
        ConfigType.INT,
        "About how many bytes of log lie between two entries of the offset index.",
    ),
    (
        "message.timestamp.type",
        "CreateTime",
        ConfigType.STRING,
        "A record's timestamp is its envelope's ts_ms.",
    ),
    ("min.insync.replicas", "1", ConfigType.INT, "The log has one copy."),
    ("retention.bytes", "-1", ConfigType.LONG, "Oldest segments go when a partition is larger; -1: never."),
    ("retention.ms", "-1", ConfigType.LONG, "Segments go when their newest record is older; -1: never."),
    ("segment.bytes", str(SEGMENT_BYTES), ConfigType.INT, "A new segment begins at this size."),
    ("segment.ms", "-1", ConfigType.LONG, "A new segment begins at this age; -1: by size alone."),
)

_BROKER: Final = {
    "advertised.listeners": (ConfigType.LIST, "Where clients are told to connect."),
    "auto.create.topics.enable": (ConfigType.BOOLEAN, "Topics come from captures alone."),
    "broker.id": (ConfigType.INT, "This broker's id."),
    "connections.max.idle.ms": (ConfigType.LONG, "A silent connection is closed after this long."),
    "default.replication.factor": (ConfigType.INT, "The log has one copy."),
    "group.initial.rebalance.delay.ms": (ConfigType.INT, "How long an empty group waits for more members."),
    "group.max.session.timeout.ms": (ConfigType.INT, "The longest session timeout a member may ask for."),
    "group.max.size": (ConfigType.INT, "The most members that a group may have."),
    "group.min.session.timeout.ms": (ConfigType.INT, "The shortest session timeout a member may ask for."),
    "node.id": (ConfigType.INT, "This broker's id."),
    "num.partitions": (ConfigType.INT, "A table's topic has one partition."),
    "offset.metadata.max.bytes": (ConfigType.INT, "The longest text that goes with a committed offset."),
    "offsets.retention.minutes": (ConfigType.INT, "How long an empty group's offsets are kept."),
    "process.roles": (ConfigType.LIST, "What this process is."),
    "socket.request.max.bytes": (ConfigType.INT, "The largest request that is read."),
}


def topic_configs(topic: Topic) -> list[Config]:
    """The settings of a topic: its own, and the defaults of the others."""
    known = {name: (value, kind, text) for name, value, kind, text in _TOPIC}
    for name in topic.config:
        known.setdefault(name, ("", ConfigType.STRING, ""))
    return [
        Config(name, topic.config[name], kind, ConfigSource.TOPIC, text)
        if name in topic.config
        else Config(name, value, kind, ConfigSource.DEFAULT, text)
        for name, (value, kind, text) in sorted(known.items())
    ]


def broker_configs(settings: Mapping[str, str]) -> list[Config]:
    """The settings of the broker."""
    return [Config(name, value, *_of_broker(name)) for name, value in sorted(settings.items())]


def _of_broker(name: str) -> tuple[ConfigType, ConfigSource, str]:
    kind, text = _BROKER[name]
    return kind, ConfigSource.STATIC_BROKER, text
