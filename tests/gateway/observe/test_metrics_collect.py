"""From counters to Prometheus' families."""

import pytest
from prometheus_client.core import Metric

from gateway.groups.messages import Summary
from gateway.groups.state import GroupState
from gateway.observe import Metrics, collect, names
from gateway.observe.capture_status import read_statuses


def samples(families: object) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for family in families:  # type: ignore[attr-defined]  # any iterable of families
        assert isinstance(family, Metric)
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_every_family_has_a_name_of_the_module_and_a_help_text() -> None:
    known = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    figures = collect.GroupFigures([], {}, 0, 0)
    families = [
        *collect.broker(Metrics()),
        *collect.log([]),
        *collect.groups(figures),
        *collect.captures([]),
    ]
    for family in families:
        assert {family.name, family.name + "_total"} & known, family.name
        assert family.name.startswith("tidegate_")
        assert family.documentation.endswith(".")
    assert len({family.name for family in families}) == len(families)


def test_requests_are_counted_by_version_and_latency() -> None:
    metrics = Metrics()
    fetch = metrics.api("Fetch")
    assert metrics.api("Fetch") is fetch
    for seconds in (0.00005, 0.0001, 0.003, 99.0):
        fetch.answered(13, seconds)
    fetch.answered(4, 0.2)
    fetch.failed("UNKNOWN_SERVER_ERROR")
    found = samples(collect.broker(metrics))
    assert found["tidegate_requests_total", (("api", "Fetch"), ("version", "13"))] == 4
    assert found["tidegate_requests_total", (("api", "Fetch"), ("version", "4"))] == 1
    assert found["tidegate_request_errors_total", (("api", "Fetch"), ("error", "UNKNOWN_SERVER_ERROR"))] == 1

    def below(bound: str) -> float:
        return found["tidegate_request_seconds_bucket", (("api", "Fetch"), ("le", bound))]

    assert [below(bound) for bound in ("0.0001", "0.0025", "0.005", "0.1", "0.5", "5.0", "+Inf")] == [
        2,
        2,
        3,
        3,
        4,
        4,
        5,
    ]
    assert found["tidegate_request_seconds_count", (("api", "Fetch"),)] == 5
    assert found["tidegate_request_seconds_sum", (("api", "Fetch"),)] == pytest.approx(99.20315)


def test_an_api_that_was_never_asked_has_no_histogram() -> None:
    metrics = Metrics()
    metrics.api("Produce")
    assert not any(
        name.startswith("tidegate_request_seconds") for name, _ in samples(collect.broker(metrics))
    )


def test_groups() -> None:
    summaries = [
        Summary("a", GroupState.STABLE, "consumer", 2),
        Summary("b", GroupState.EMPTY, "", 0),
        Summary("c", GroupState.EMPTY, "consumer", 0),
    ]
    figures = collect.GroupFigures(summaries, {("a", "orders"): 7}, offset_commits=9, offset_commit_batches=4)
    found = samples(collect.groups(figures))
    assert found["tidegate_groups", (("state", "Empty"),)] == 2
    assert found["tidegate_groups", (("state", "Stable"),)] == 1
    assert found["tidegate_group_members", (("group", "a"),)] == 2
    assert found["tidegate_group_lag", (("group", "a"), ("topic", "orders"))] == 7
    assert found["tidegate_offset_commits_total", ()] == 9
    assert found["tidegate_offset_commit_batches_total", ()] == 4


def test_captures_say_where_they_are() -> None:
    statuses = {
        "shop": (
            99_000,
            {
                "phase": "snapshot",
                "lag_bytes": 123,
                "lag_seconds": 0.5,
                "rows_total": 1000,
                "tables": {"shop.public.orders": {"rows_done": 10, "rows_estimated": 20, "done": False}},
            },
        )
    }
    found = samples(collect.captures(read_statuses(statuses, now_ms=100_500)))
    capture = ("capture", "shop")
    assert found["tidegate_capture_phase", (capture, ("phase", "snapshot"))] == 1
    assert found["tidegate_capture_phase", (capture, ("phase", "streaming"))] == 0
    assert found["tidegate_capture_lag_bytes", (capture,)] == 123
    assert found["tidegate_capture_lag_seconds", (capture,)] == 0.5
    assert found["tidegate_capture_rows_total", (capture,)] == 1000
    assert found["tidegate_capture_status_age_seconds", (capture,)] == 1.5
    table = (capture, ("topic", "shop.public.orders"))
    assert found["tidegate_snapshot_rows", table] == 10
    assert found["tidegate_snapshot_rows_estimated", table] == 20
    assert found["tidegate_snapshot_done", table] == 0


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"phase": None, "lag_bytes": "many", "lag_seconds": True, "tables": []},
        {"tables": {"t": None, "u": {"rows_done": "x"}}, "error": {"a": 1}},
    ],
)
def test_a_status_of_another_version_does_no_harm(status: dict[str, object]) -> None:
    [read] = read_statuses({"c": (0, status)}, now_ms=0)
    assert read.lag_bytes is None
    assert samples(collect.captures([read]))
