"""From the gateway's figures to Prometheus' families; nothing is counted here, everything is read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from gateway.observe import names
from gateway.observe.capture_status import CaptureStatus
from gateway.observe.metrics import Metrics

if TYPE_CHECKING:
    from gateway.groups.messages import Summary


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """Where a partition begins and ends."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """What is known of groups: who they are, their lag by (group, topic), what was committed."""

    summaries: Sequence["Summary"]
    lags: Mapping[tuple[str, str], int]
    offset_commits: int
    offset_commit_batches: int


def broker(metrics: Metrics) -> Iterator[Metric]:
    """Connections, bytes and requests."""
    yield gauge(names.CONNECTIONS, "Connections of Kafka clients open now.", metrics.connections)
    yield counter(names.CONNECTIONS_OPENED, "Connections accepted.", metrics.connections_opened)
    yield counter(names.RECEIVED_BYTES, "Bytes received from Kafka clients.", metrics.received_bytes)
    yield counter(names.SENT_BYTES, "Bytes sent to Kafka clients.", metrics.sent_bytes)
    yield counter(
        names.DECODE_ERRORS, "Connections closed for bytes that are not Kafka's.", metrics.decode_errors
    )
    yield counter(names.FETCH_BYTES, "Bytes of record batches handed out by Fetch.", metrics.fetch_bytes)
    yield gauge(names.PARKED_FETCHES, "Fetches that wait for records now.", metrics.parked_fetches)
    requests = CounterMetricFamily(names.REQUESTS, "Requests answered.", labels=[names.API, names.VERSION])
    errors = CounterMetricFamily(
        names.REQUEST_ERRORS, "Requests whose answer carried an error.", labels=[names.API, names.ERROR]
    )
    seconds = HistogramMetricFamily(
        names.REQUEST_SECONDS,
        "Seconds from a request's arrival to its answer, the wait of a long poll included.",
        labels=[names.API],
    )
    for api in sorted(metrics.apis.values(), key=lambda figures: figures.name):
        for version, count in sorted(api.requests.items()):
            requests.add_metric([api.name, str(version)], count)
        for error, count in sorted(api.errors.items()):
            errors.add_metric([api.name, error], count)
        if api.requests:
            seconds.add_metric([api.name], _cumulative(api.buckets), api.seconds)
    yield from (requests, errors, seconds)
    registry = CounterMetricFamily(
        names.REGISTRY_REQUESTS, "Requests to the schema registry, by HTTP status.", labels=[names.STATUS]
    )
    for status, count in sorted(metrics.registry_requests.items()):
        registry.add_metric([str(status)], count)
    yield registry


def log(partitions: Iterable[PartitionFigures]) -> Iterator[Metric]:
    """Where the partitions begin and end."""
    labels = [names.TOPIC, names.PARTITION]
    start = GaugeMetricFamily(names.LOG_START_OFFSET, "First offset of a partition.", labels=labels)
    end = GaugeMetricFamily(names.LOG_END_OFFSET, "High watermark of a partition.", labels=labels)
    for one in partitions:
        start.add_metric([one.topic, str(one.partition)], one.log_start_offset)
        end.add_metric([one.topic, str(one.partition)], one.log_end_offset)
    yield from (start, end)


def groups(figures: GroupFigures) -> Iterator[Metric]:
    """Consumer groups and how far they are behind."""
    by_state = GaugeMetricFamily(names.GROUPS, "Consumer groups, by state.", labels=[names.STATE])
    for state, count in sorted(Counter(one.state.value for one in figures.summaries).items()):
        by_state.add_metric([state], count)
    members = GaugeMetricFamily(names.GROUP_MEMBERS, "Members of a group.", labels=[names.GROUP])
    for one in figures.summaries:
        members.add_metric([one.group_id], one.members)
    lag = GaugeMetricFamily(
        names.GROUP_LAG,
        "Records of a topic that a group has not committed yet, over the partitions it has committed.",
        labels=[names.GROUP, names.TOPIC],
    )
    for (group_id, topic), records in sorted(figures.lags.items()):
        lag.add_metric([group_id, topic], records)
    yield from (by_state, members, lag)
    yield counter(names.OFFSET_COMMITS, "OffsetCommits stored.", figures.offset_commits)
    yield counter(names.OFFSET_COMMIT_BATCHES, "Transactions that they took.", figures.offset_commit_batches)


def captures(statuses: Iterable[CaptureStatus]) -> Iterator[Metric]:
    """Captures as they last reported of themselves."""
    one_label, table_labels = [names.CAPTURE], [names.CAPTURE, names.TOPIC]
    phase = GaugeMetricFamily(
        names.CAPTURE_PHASE, "1 for the phase a capture is in.", labels=[names.CAPTURE, names.PHASE]
    )
    age = GaugeMetricFamily(
        names.CAPTURE_STATUS_AGE, "Seconds since a capture last reported.", labels=one_label
    )
    lag_bytes = GaugeMetricFamily(
        names.CAPTURE_LAG_BYTES,
        "WAL bytes of the source that are not durable in the log yet.",
        labels=one_label,
    )
    lag_seconds = GaugeMetricFamily(
        names.CAPTURE_LAG_SECONDS, "Seconds from a commit in the source to its log entry.", labels=one_label
    )
    rows = CounterMetricFamily(names.CAPTURE_ROWS, "Rows captured.", labels=one_label)
    done = GaugeMetricFamily(names.SNAPSHOT_ROWS, "Rows of a table's snapshot.", labels=table_labels)
    estimated = GaugeMetricFamily(
        names.SNAPSHOT_ROWS_ESTIMATED, "Rows that a table's snapshot may have.", labels=table_labels
    )
    finished = GaugeMetricFamily(
        names.SNAPSHOT_DONE, "1 once a table's snapshot is complete.", labels=table_labels
    )
    for status in statuses:
        for known in {*names.PHASES, status.phase}:
            phase.add_metric([status.capture, known], float(known == status.phase))
        age.add_metric([status.capture], status.age_s)
        for family, value in ((lag_bytes, status.lag_bytes), (lag_seconds, status.lag_seconds)):
            if value is not None:
                family.add_metric([status.capture], value)
        if status.rows is not None:
            rows.add_metric([status.capture], status.rows)
        for table in status.tables:
            done.add_metric([status.capture, table.topic], table.rows_done)
            estimated.add_metric([status.capture, table.topic], table.rows_estimated)
            finished.add_metric([status.capture, table.topic], float(table.done))
    yield from (phase, age, lag_bytes, lag_seconds, rows, done, estimated, finished)


def gauge(name: str, text: str, value: float) -> Metric:
    """A gauge without labels."""
    return GaugeMetricFamily(name, text, value=value)


def counter(name: str, text: str, value: float) -> Metric:
    """A counter without labels."""
    return CounterMetricFamily(name, text, value=value)


def _cumulative(buckets: Sequence[int]) -> list[tuple[str, float]]:
    """Prometheus counts in a bucket all that was faster too."""
    bounds = [str(bound) for bound in names.REQUEST_SECONDS_BUCKETS] + ["+Inf"]
    total, cumulative = 0, []
    for bound, count in zip(bounds, buckets, strict=True):
        total += count
        cumulative.append((bound, float(total)))
    return cumulative
