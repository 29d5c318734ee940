"""The admin port of a running gateway."""

import json
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from capture.log import LogError
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.in_process import InProcessGateway

TOPIC = "shop.public.orders"


@pytest.fixture(scope="module")
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway(http=True) as service:
        partition, *_ = service.topic(TOPIC)
        service.append(partition, [b"a", b"b", b"c"])
        yield service


def ask(service: InProcessGateway, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """Status, content type and body."""
    request = urllib.request.Request(
        f"http://{service.gateway.admin}{path}", method=method, headers=dict(headers)
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.headers["Content-Type"], response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def ask_json(service: InProcessGateway, path: str) -> tuple[int, dict[str, object]]:
    status, kind, body = ask(service, path)
    assert kind.startswith("application/json")
    return status, json.loads(body)


def figures(service: InProcessGateway) -> dict[str, float]:
    status, kind, body = ask(service, "/metrics")
    assert status == 200
    assert kind.startswith("text/plain")
    found = {}
    for line in body.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_the_index_says_where_things_are(service: InProcessGateway) -> None:
    status, body = ask_json(service, "/")
    assert status == 200
    assert body["name"] == "tidegate"
    assert body["kafka"] == service.bootstrap
    assert body["registry"] == f"http://{service.gateway.registry}"


def test_what_is_not_there_is_a_json_404(service: InProcessGateway) -> None:
    status, body = ask_json(service, "/nothing")
    assert (status, body["status"]) == (404, "failing")
    assert ask(service, "/metrics", "POST")[0] == 405
    assert ask(service, "/health", "HEAD")[0] == 200


def test_metrics_of_what_was_asked_and_committed(service: InProcessGateway) -> None:
    with service.client() as client:
        client.ask(MetadataRequest(topics=None), 9)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        answer = client.ask(OffsetCommitRequest(group_id="lagging", topics=[topic]), 8)
        assert answer.topics[0].partitions[0].error_code == 0
        found = figures(service)
        assert found["tidegate_connections"] == 1
    assert found['tidegate_requests_total{api="Metadata",version="9"}'] == 1
    assert found['tidegate_request_seconds_count{api="OffsetCommit"}'] == 1
    assert found[f'tidegate_log_end_offset{{partition="0",topic="{TOPIC}"}}'] == 3
    assert found[f'tidegate_log_start_offset{{partition="0",topic="{TOPIC}"}}'] == 0
    assert found[f'tidegate_group_lag{{group="lagging",topic="{TOPIC}"}}'] == 2
    assert found["tidegate_offset_commits_total"] == 1
    assert found["process_resident_memory_bytes"] > 10_000_000
    assert found["tidegate_received_bytes_total"] > 0
    assert any(name.startswith("tidegate_build_info{") for name in found)
    assert not any(name.startswith("tidegate_scrape_errors{") for name in found)


def test_openmetrics_is_spoken_too(service: InProcessGateway) -> None:
    status, kind, body = ask(service, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_figures_that_cannot_be_read_do_not_hide_the_others(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(service.gateway._offsets, "fetch", fail)
    found = figures(service)
    assert found['tidegate_scrape_errors{part="groups"}'] == 1
    assert "tidegate_connections" in found


def test_health_is_about_the_process_and_its_catalog(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask_json(service, "/health") == (200, {"status": "ok", "checks": {"catalog": "ok"}})

    def fail() -> None:
        raise LogError("no such file")

    monkeypatch.setattr(service.gateway.log.catalog, "state", fail)
    status, body = ask_json(service, "/health")
    assert (status, body["status"]) == (503, "failing")
    assert "no such file" in str(body["checks"])


def test_ready_asks_the_listener_and_the_captures(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = service.log.catalog.put_status
    put("shop", {"phase": "streaming", "lag_bytes": 0})
    assert ask_json(service, "/ready") == (
        200,
        {"status": "ok", "checks": {"catalog": "ok", "listener": "ok", "capture shop": "ok"}},
    )
    put("shop", {"phase": "failed", "error": "slot is gone"})
    status, body = ask_json(service, "/ready")
    assert status == 503
    assert body["checks"]["capture shop"] == "failed: slot is gone"  # type: ignore[index]  # a JSON object
    put("shop", {"phase": "stopped"})
    assert ask_json(service, "/ready")[0] == 200
    put("shop", {"phase": "streaming"})
    late = time.time_ns() + 31 * 10**9
    monkeypatch.setattr("time.time_ns", lambda: late)
    status, body = ask_json(service, "/ready")
    assert status == 503
    assert "has not reported for 31 s" in str(body["checks"])
    assert ask_json(service, "/health")[0] == 200


def test_ready_when_the_listener_is_gone(service: InProcessGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.gateway, "ready", False)
    status, body = ask_json(service, "/ready")
    assert status == 503
    assert "starting or stopping" in str(body["checks"])
    monkeypatch.setattr(service.gateway, "ready", True)
    monkeypatch.setattr(service.gateway, "kafka", service.gateway.admin.__class__("127.0.0.1", 1))
    status, body = ask_json(service, "/ready")
    assert status == 503
    assert "does not answer" in str(body["checks"])
