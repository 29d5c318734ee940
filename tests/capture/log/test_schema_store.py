"""Schemas: ids are global, given once and for ever; subjects count their versions."""

from __future__ import annotations

import threading

from capture.log import Log, Schema, SubjectVersion


def test_an_id_belongs_to_a_text_under_every_subject(log: Log) -> None:
    schemas = log.schemas
    first = schemas.register("a-value", '"string"')
    assert schemas.register("a-value", '"string"') == first
    assert schemas.register("b-value", '"string"') == first
    second = schemas.register("a-value", '"long"')
    assert second > first
    assert schemas.by_id(first) == Schema(first, "AVRO", '"string"')
    assert schemas.by_id(99) is None
    assert schemas.versions("a-value") == [1, 2]
    assert schemas.version("a-value", 1) == SubjectVersion("a-value", 1, Schema(first, "AVRO", '"string"'))
    assert schemas.version("a-value", "latest") == SubjectVersion(
        "a-value", 2, Schema(second, "AVRO", '"long"')
    )
    assert schemas.version("a-value", 3) is None
    assert schemas.version("nothing", "latest") is None
    assert schemas.versions("nothing") == []
    assert schemas.subjects_of(first) == ["a-value", "b-value"]
    assert schemas.versions_of(first) == [("a-value", 1), ("b-value", 1)]
    assert schemas.versions_of(99) == []


def test_another_type_is_another_schema(log: Log) -> None:
    assert log.schemas.register("s", "{}", "AVRO") != log.schemas.register("s", "{}", "JSON")


def test_subjects_are_found_by_prefix_without_patterns(log: Log) -> None:
    for subject in ("shop.a-key", "shop.a-value", "shop%b-key", "Shop.c-key"):
        log.schemas.register(subject, "{}")
    assert log.schemas.subjects() == ["Shop.c-key", "shop%b-key", "shop.a-key", "shop.a-value"]
    assert log.schemas.subjects("shop.") == ["shop.a-key", "shop.a-value"]
    assert log.schemas.subjects("shop%") == ["shop%b-key"]


def test_ids_survive_and_are_never_given_again(log: Log) -> None:
    given = [log.schemas.register("s", str(n)) for n in range(5)]
    again = Log.open(log.data)
    assert [again.schemas.register("s", str(n)) for n in range(5)] == given
    with again.catalog.database.write() as connection:
        connection.execute("DELETE FROM subjects WHERE schema_id = ?", (given[-1],))
        connection.execute("DELETE FROM schemas WHERE schema_id = ?", (given[-1],))
    assert again.schemas.register("s", "new") == given[-1] + 1
    again.close()


def test_two_processes_that_register_the_same_agree(log: Log) -> None:
    others = [Log.open(log.data) for _ in range(4)]
    ids: list[list[int]] = []

    def work(of: Log) -> None:
        ids.append([of.schemas.register("s", str(n)) for n in range(10)])

    threads = [threading.Thread(target=work, args=(of,)) for of in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found == ids[0] for found in ids)
    assert log.schemas.versions("s") == list(range(1, 11))
    for of in others:
        of.close()
