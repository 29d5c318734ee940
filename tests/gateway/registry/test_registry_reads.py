"""The schema registry's API over HTTP: reads, lookups, refusals, errors."""

import json
from pathlib import Path

import pytest

from tests.gateway.registry.registry_client import KEY, VALUE, VALUE_2, RegistryClient, with_registry

ORDERS_KEY, ORDERS = "shop.public.orders-key", "shop.public.orders-value"


def test_trap_09_the_registry_answers_at_the_root_of_its_url(tmp_path: Path) -> None:
    """clients.md 0.9: Materialize and RisingWave clear the path of the URL that they are given."""

    async def scenario(client: RegistryClient) -> None:
        assert await client.get("/") == {}
        assert await client.get("/subjects") == [ORDERS_KEY, ORDERS]
        assert (await client.get("/config"))["compatibilityLevel"]
        latest = await client.get(f"/subjects/{ORDERS}/versions/latest")
        assert set(latest) == {"subject", "version", "id", "schema"}
        versions = await client.get(f"/schemas/ids/{latest['id']}/versions")
        first = versions[0]
        again = await client.get(f"/subjects/{first['subject']}/versions/{first['version']}")
        assert again["schema"] == latest["schema"]

    with_registry(tmp_path, scenario)


def test_subjects_are_listed_in_parts(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        assert await client.get("/subjects?subjectPrefix=shop.public.orders-v") == [ORDERS]
        assert await client.get("/subjects?subjectPrefix=:*:") == [ORDERS_KEY, ORDERS]
        assert await client.get("/subjects?subjectPrefix=nothing") == []
        assert await client.get("/subjects?offset=1&limit=5") == [ORDERS]
        assert await client.get("/subjects?limit=1") == [ORDERS_KEY]
        assert await client.get("/subjects?limit=0") == []
        assert await client.get("/subjects?deleted=true") == [ORDERS_KEY, ORDERS]
        assert await client.get("/subjects?deletedOnly=true") == []
        assert (await client.ask("GET", "/subjects?offset=x")).error == (400, 400)
        assert (await client.ask("GET", "/subjects?offset=-1")).error == (400, 400)

    with_registry(tmp_path, scenario)


def test_versions_of_a_subject(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        assert await client.get(f"/subjects/{ORDERS}/versions") == [1, 2]
        assert await client.get(f"/subjects/{ORDERS}/versions/1") == {
            "subject": ORDERS,
            "version": 1,
            "id": client.value_id,
            "schema": VALUE,
        }
        for latest in ("2", "latest", "-1"):
            found = await client.get(f"/subjects/{ORDERS}/versions/{latest}")
            assert (found["version"], found["id"]) == (2, client.value_2_id)
        text = await client.ask("GET", f"/subjects/{ORDERS}/versions/2/schema")
        assert (text.status, text.text) == (200, VALUE_2)
        assert await client.get(f"/subjects/{ORDERS}/versions/2/referencedby") == []
        assert await client.get(f"/subjects/:.:{ORDERS}/versions") == [1, 2]

    with_registry(tmp_path, scenario)


def test_schemas_by_id(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        for query in ("", f"?subject={ORDERS_KEY}", f"?fetchMaxId=false&subject={ORDERS_KEY}"):
            assert await client.get(f"/schemas/ids/{client.key_id}{query}") == {"schema": KEY}
        assert await client.get(f"/schemas/ids/{client.key_id}/schema") == json.loads(KEY)
        assert await client.get(f"/schemas/ids/{client.key_id}/subjects") == [ORDERS_KEY]
        assert await client.get(f"/schemas/ids/{client.key_id}/versions") == [
            {"subject": ORDERS_KEY, "version": 1}
        ]
        assert await client.get("/schemas/types") == ["AVRO"]
        listed = await client.get("/schemas")
        assert [(one["subject"], one["version"]) for one in listed] == [
            (ORDERS_KEY, 1),
            (ORDERS, 1),
            (ORDERS, 2),
        ]
        latest = await client.get("/schemas?latestOnly=true&subjectPrefix=shop.public.orders-value")
        assert [(one["version"], one["schema"]) for one in latest] == [(2, VALUE_2)]

    with_registry(tmp_path, scenario)


def test_a_schema_under_two_subjects_has_one_id(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        assert client.log.schemas.register("copy-value", VALUE) == client.value_id
        assert await client.get(f"/schemas/ids/{client.value_id}/subjects") == ["copy-value", ORDERS]

    with_registry(tmp_path, scenario)


def test_ids_are_for_ever(tmp_path: Path) -> None:
    async def first(client: RegistryClient) -> dict[int, str]:
        ids = (client.key_id, client.value_id, client.value_2_id)
        return {one: (await client.get(f"/schemas/ids/{one}"))["schema"] for one in ids}

    before = with_registry(tmp_path, first)
    assert with_registry(tmp_path, first) == before
    assert list(before.values()) == [KEY, VALUE, VALUE_2]


def test_only_what_is_not_avro_says_its_type(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        schema_id = client.log.schemas.register("json-value", '{"type": "object"}', "JSON")
        assert (await client.get(f"/schemas/ids/{schema_id}"))["schemaType"] == "JSON"
        assert (await client.get("/subjects/json-value/versions/1"))["schemaType"] == "JSON"

    with_registry(tmp_path, scenario)


def test_subjects_may_hold_any_character(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        for subject, path in (
            ("a/b c-value", "a%2Fb%20c-value"),
            ("größe-value", "gr%C3%B6%C3%9Fe-value"),
            ("50%+1?-value", "50%25%2B1%3F-value"),
        ):
            client.log.schemas.register(subject, KEY)
            assert (await client.get(f"/subjects/{path}/versions/latest"))["subject"] == subject

    with_registry(tmp_path, scenario)


def test_settings(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        assert await client.get("/config") == {"compatibilityLevel": "NONE"}
        assert await client.get(f"/config/{ORDERS}?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
        assert (await client.ask("GET", f"/config/{ORDERS}")).error == (404, 40408)
        assert await client.get("/mode") == {"mode": "READONLY"}
        assert await client.get(f"/mode/{ORDERS}?defaultToGlobal=true") == {"mode": "READONLY"}
        assert (await client.ask("GET", f"/mode/{ORDERS}")).error == (404, 40409)
        assert await client.get("/contexts") == ["."]
        cluster = await client.get("/v1/metadata/id")
        assert len(cluster["scope"]["clusters"]["kafka-cluster"]) == 22
        assert (await client.get("/v1/metadata/version"))["version"]

    with_registry(tmp_path, scenario)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/subjects/none/versions", (404, 40401)),
        ("/subjects/none/versions/1", (404, 40401)),
        ("/subjects/none/versions/latest", (404, 40401)),
        ("/subjects/none/versions/latest/schema", (404, 40401)),
        ("/subjects/none/versions/1/referencedby", (404, 40401)),
        (f"/subjects/{ORDERS}/versions/3", (404, 40402)),
        (f"/subjects/{ORDERS}/versions/2147483647", (404, 40402)),
        (f"/subjects/{ORDERS}/versions/0", (422, 42202)),
        (f"/subjects/{ORDERS}/versions/-2", (422, 42202)),
        (f"/subjects/{ORDERS}/versions/2147483648", (422, 42202)),
        (f"/subjects/{ORDERS}/versions/first", (422, 42202)),
        (f"/subjects/{ORDERS}/versions/%D9%A1", (422, 42202)),
        ("/schemas/ids/999", (404, 40403)),
        ("/schemas/ids/-1", (404, 40403)),
        ("/schemas/ids/999/schema", (404, 40403)),
        ("/schemas/ids/999/subjects", (404, 40403)),
        ("/schemas/ids/999/versions", (404, 40403)),
        ("/schemas/ids/x", (404, 404)),
        ("/schemas/ids/99999999999", (404, 404)),
        ("/associations/resources/-/shop.public.orders?resourceType=topic", (404, 404)),
        ("/nothing/here", (404, 404)),
        ("/subjects/" + "x" * 5000 + "/versions", (404, 40401)),
    ],
)
def test_what_is_not_there_is_said_with_confluents_codes(
    path: str, error: tuple[int, int], tmp_path: Path
) -> None:
    async def scenario(client: RegistryClient) -> None:
        assert (await client.ask("GET", path)).error == error

    with_registry(tmp_path, scenario)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/config"),
        ("PUT", f"/config/{ORDERS}"),
        ("DELETE", "/config"),
        ("DELETE", f"/config/{ORDERS}"),
        ("PUT", "/mode"),
        ("PUT", f"/mode/{ORDERS}?force=true"),
        ("DELETE", f"/mode/{ORDERS}"),
        ("DELETE", f"/subjects/{ORDERS}?permanent=true"),
        ("DELETE", f"/subjects/{ORDERS}/versions/1"),
    ],
)
def test_writes_are_refused(method: str, path: str, tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        answer = await client.ask(method, path, {"compatibility": "FULL", "mode": "READWRITE"})
        assert answer.error == (422, 42205)
        assert "read-only" in answer.json["message"]
        assert await client.get(f"/subjects/{ORDERS}/versions") == [1, 2]

    with_registry(tmp_path, scenario)


def test_a_schema_that_is_there_is_looked_up_and_registered_in_any_notation(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        spaced = json.dumps(dict(reversed(json.loads(VALUE).items())), indent=2)
        for text in (VALUE, spaced):
            looked_up = await client.ask("POST", f"/subjects/{ORDERS}?normalize=true", {"schema": text})
            assert looked_up.status == 200
            assert looked_up.json == {
                "subject": ORDERS,
                "version": 1,
                "id": client.value_id,
                "schema": VALUE,
            }
            registered = await client.ask(
                "POST", f"/subjects/{ORDERS}/versions", {"schema": text, "schemaType": "AVRO"}
            )
            assert (registered.status, registered.json) == (200, {"id": client.value_id})

    with_registry(tmp_path, scenario)


def test_a_schema_that_is_not_there(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        new = {"schema": '{"type": "record", "name": "New", "fields": []}'}
        assert (await client.ask("POST", f"/subjects/{ORDERS}", new)).error == (404, 40403)
        assert (await client.ask("POST", "/subjects/none", new)).error == (404, 40401)
        assert (await client.ask("POST", f"/subjects/{ORDERS}/versions", new)).error == (422, 42205)
        assert (await client.ask("POST", "/subjects/none/versions", new)).error == (422, 42205)
        # The same text under another subject would be a new version, so it is no exception.
        assert (await client.ask("POST", "/subjects/none/versions", {"schema": KEY})).error == (422, 42205)
        assert await client.get("/subjects") == [ORDERS_KEY, ORDERS]

    with_registry(tmp_path, scenario)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", (400, 400)),
        (b"[" * 100_000, (400, 400)),
        (b"\xff\xfe", (400, 400)),
        ([], (422, 42201)),
        ({}, (422, 42201)),
        ({"schema": ""}, (422, 42201)),
        ({"schema": 5}, (422, 42201)),
        ({"schema": "not json"}, (422, 42201)),
        ({"schema": "{}"}, (422, 42201)),
        ({"schema": '{"type": "record"}'}, (422, 42201)),
        ({"schema": '{"type": "record", "name": "R", "fields": [{"type": "int"}]}'}, (422, 42201)),
        ({"schema": "[" * 50_000 + "]" * 50_000}, (422, 42201)),
        ({"schema": '["null"' + ',["null"' * 300 + "]" * 301}, (422, 42201)),
        ({"schema": '"int"', "schemaType": "THRIFT"}, (422, 42201)),
    ],
)
def test_bodies_that_are_wrong(body: object, error: tuple[int, int], tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        for path in (
            f"/subjects/{ORDERS}",
            f"/subjects/{ORDERS}/versions",
            f"/compatibility/subjects/{ORDERS}/versions/latest",
        ):
            assert (await client.ask("POST", path, body)).error == error

    with_registry(tmp_path, scenario)


def test_a_body_that_is_too_large(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        huge = b'{"schema": "' + b"x" * (5 * 1024 * 1024) + b'"}'
        assert (await client.ask("POST", f"/subjects/{ORDERS}", huge)).error == (413, 413)
        assert await client.get("/") == {}

    with_registry(tmp_path, scenario)


def test_compatibility_is_level_none(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        path = f"/compatibility/subjects/{ORDERS}/versions"
        body = {"schema": '"string"'}
        assert (await client.ask("POST", f"{path}/latest", body)).json == {"is_compatible": True}
        verbose = await client.ask("POST", f"{path}?verbose=true", body)
        assert verbose.json == {"is_compatible": True, "messages": []}
        assert (await client.ask("POST", f"{path}/9", body)).error == (404, 40402)
        assert (await client.ask("POST", f"{path}/x", body)).error == (422, 42202)
        unknown = await client.ask("POST", "/compatibility/subjects/none/versions/latest", body)
        assert unknown.error == (404, 40401)

    with_registry(tmp_path, scenario)


def test_any_accept_and_any_content_type_will_do(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        for accept in ("text/html, image/gif, *; q=.2, */*; q=.2", "application/xml", "nonsense", ""):
            answer = await client.ask("GET", f"/schemas/ids/{client.key_id}", Accept=accept)
            assert (answer.status, answer.content_type) == (200, "application/vnd.schemaregistry.v1+json")
        for kind in ("application/octet-stream", "application/json", "text/plain"):
            answer = await client.ask("POST", f"/subjects/{ORDERS}", {"schema": VALUE}, Content_Type=kind)
            assert answer.status == 200

    with_registry(tmp_path, scenario)


def test_head_options_other_methods_and_a_last_slash(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        head = await client.ask("HEAD", "/subjects")
        assert (head.status, head.text) == (200, "")
        options = await client.ask("OPTIONS", f"/subjects/{ORDERS}/versions/latest")
        assert (options.status, options.headers["Allow"]) == (200, "DELETE,GET,HEAD,OPTIONS")
        patch = await client.ask("PATCH", "/subjects")
        assert patch.error == (405, 405)
        assert "GET" in patch.headers["Allow"]
        assert await client.get("/subjects/") == [ORDERS_KEY, ORDERS]

    with_registry(tmp_path, scenario)


def test_requests_are_counted_by_status(tmp_path: Path) -> None:
    async def scenario(client: RegistryClient) -> None:
        await client.get("/subjects")
        await client.ask("GET", "/schemas/ids/999")
        await client.ask("GET", "/nothing")
        assert client.metrics.registry_requests == {200: 1, 404: 2}

    with_registry(tmp_path, scenario)


def test_a_catalog_out_of_reach_is_a_store_error(tmp_path: Path) -> None:
    import sqlite3

    async def scenario(client: RegistryClient) -> None:
        def fail(*_: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        client.log.schemas.by_id = fail  # type: ignore[method-assign,assignment]  # a disk that fails
        assert (await client.ask("GET", "/schemas/ids/1")).error == (500, 50001)

    with_registry(tmp_path, scenario)
