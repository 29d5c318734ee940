"""The configuration's layers: what wins, where it came from, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import config
from gateway.cli.connection_url import connection_properties
from gateway.config import Address, CaptureConfig, Config, ConfigError, GatewayConfig, Override


def loaded(tmp_path: Path, toml: str = "", **more: object) -> Config:
    file = tmp_path / "tidegate.toml"
    file.write_text(toml)
    return config.load(file=file, expand_url=connection_properties, **more)  # type: ignore[arg-type]  # keywords pass through


def test_defaults_stand_alone() -> None:
    read = config.load()
    assert str(read.gateway.kafka) == "127.0.0.1:9092"
    assert str(read.gateway.registry) == "127.0.0.1:8081"
    assert str(read.gateway.admin) == "127.0.0.1:9644"
    assert {source for _, _, source in read.settings()} == {"default"}


def test_each_layer_overrides_the_one_before(tmp_path: Path) -> None:
    toml = '[gateway]\nkafka = "a:1"\nregistry = "a:2"\nadmin = "a:3"\n'
    environment = {"TIDEGATE_GATEWAY__REGISTRY": "b:2", "TIDEGATE_GATEWAY__ADMIN": "b:3"}
    read = loaded(
        tmp_path,
        toml,
        environment=environment,
        overrides=[Override(key="gateway.admin", text="c:3", source="--admin")],
    )
    addresses = (read.gateway.kafka, read.gateway.registry, read.gateway.admin)
    assert [str(address) for address in addresses] == ["a:1", "b:2", "c:3"]
    origin = {key: source for key, _, source in read.settings()}
    assert origin["gateway.kafka"] == str(tmp_path / "tidegate.toml")
    assert origin["gateway.registry"] == "environment variable TIDEGATE_GATEWAY__REGISTRY"
    assert origin["gateway.admin"] == "--admin"
    assert origin["log.data"] == "default"


def test_dotted_toml_keys_are_property_names_again(tmp_path: Path) -> None:
    toml = """
        [capture.shop]
        table.include.list = ["public.a", "public.b"]
        "value.converter" = "json"
        "value.converter.schemas.enable" = false
        [capture.shop.database]
        hostname = "db"
        port = 5433
    """
    assert dict(loaded(tmp_path, toml).capture("shop").properties) == {
        "table.include.list": "public.a,public.b",
        "value.converter": "json",
        "value.converter.schemas.enable": "false",
        "database.hostname": "db",
        "database.port": "5433",
    }


def test_the_environment_reaches_a_capture(tmp_path: Path) -> None:
    toml = '[capture.web-Shop]\n"database.hostname" = "db"\n'
    environment = {
        "TIDEGATE_CAPTURE__WEB_SHOP__DATABASE_PASSWORD": "hush",
        "TIDEGATE_CAPTURE__OTHER__DATABASE_DBNAME": "other",
    }
    read = loaded(tmp_path, toml, environment=environment)
    assert read.capture("web-Shop").properties["database.password"] == "hush"
    assert read.capture("other").properties["database.dbname"] == "other"


def test_a_url_stands_for_the_database_properties(tmp_path: Path) -> None:
    toml = '[capture.shop]\npostgres = "postgresql://app:p%40ss@db.example:6432/shop?sslmode=require"\n'
    assert dict(loaded(tmp_path, toml).capture("shop").properties) == {
        "database.user": "app",
        "database.password": "p@ss",
        "database.hostname": "db.example",
        "database.port": "6432",
        "database.dbname": "shop",
        "database.sslmode": "require",
    }


def test_a_capture_of_the_command_line_overrides_property_by_property(tmp_path: Path) -> None:
    toml = '[capture.shop]\n"slot.name" = "one"\n"plugin.name" = "pgoutput"\n'
    given = CaptureConfig(
        name="shop", properties={"slot.name": "two"}, sources={"slot.name": "--set slot.name"}
    )
    capture = loaded(tmp_path, toml, captures=[given]).capture("shop")
    assert capture.properties == {"slot.name": "two", "plugin.name": "pgoutput"}
    assert capture.sources["slot.name"] == "--set slot.name"


@pytest.mark.parametrize(
    ("toml", "environment", "words"),
    [
        ('[gateway]\nkafak = "a:1"', {}, ["gateway.kafak", "tidegate.toml", "'kafka'"]),
        ("[gatewya]\nx = 1", {}, ["'gatewya'", "tidegate.toml", "'gateway'"]),
        ("kafka = 'a:1'", {}, ["'kafka'", "tidegate.toml"]),
        ('[gateway]\nkafka = "9092"', {}, ["gateway.kafka", "HOST:PORT"]),
        ("[gateway]\nkafka = 9092", {}, ["gateway.kafka", "tidegate.toml"]),
        ('[supervisor]\nstop_timeout_ms = "soon"', {}, ["supervisor.stop_timeout_ms", "soon"]),
        ("[capture]\nx = 1", {}, ["[capture.NAME]"]),
        ('[capture."a b"]\n"slot.name" = "x"', {}, ["'a b'"]),
        ('[capture.a]\nvalue.converter = "x"\nvalue.converter.schemas.enable = true', {}, ["quote both"]),
        ("[gateway", {}, ["tidegate.toml"]),
        ("", {"TIDEGATE_GATEWAY__PORT": "1"}, ["gateway.port", "TIDEGATE_GATEWAY__PORT"]),
        ("", {"TIDEGATE_GATEWAY_KAFKA": "a:1"}, ["TIDEGATE_GATEWAY_KAFKA", "TIDEGATE_GATEWAY__KAFKA"]),
        ("", {"TIDEGATE_CAPTURE__SHOP": "x"}, ["TIDEGATE_CAPTURE__NAME__PROPERTY"]),
        ('[gateway]\nkafka = "0.0.0.0:9092"', {}, ["gateway.advertised"]),
    ],
)
def test_what_is_wrong_is_named_with_its_source(
    tmp_path: Path, toml: str, environment: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, toml, environment=environment)
    assert [word for word in words if word not in str(caught.value)] == []


def test_variables_of_others_are_left_alone() -> None:
    config.load(environment={"TIDEGATE_PORT": "tcp://10.0.0.1:9092", "TIDEGATE_SERVICE_HOST": "10.0.0.1"})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        config.load(file=tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://app:hush@db", ["DATABASE"]),
        ("postgresql://app:hush@db/shop?gssencmode=disable", ["gssencmode"]),
        ("postgresql://app:hush@db/shop?nonsense=1", ["postgres URL"]),
        ("app:hush@db/shop", ["postgres URL"]),
    ],
)
def test_a_bad_url_is_refused_without_its_password(url: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        connection_properties(url, "postgres URL")
    assert [word for word in words if word not in str(caught.value)] == []
    assert "hush" not in str(caught.value)


def test_secrets_are_masked() -> None:
    properties = {
        "database.password": "hush",
        "value.converter.schema.registry.basic.auth.user.info": "me:hush",
        "some.url": "postgresql://me:hush@db/shop?password=hush",
        "database.user": "me",
    }
    read = Config(captures=(CaptureConfig(name="shop", properties=properties),))
    shown = {key: text for key, text, _ in read.settings()}
    assert "hush" not in " ".join(shown.values())
    assert shown["capture.shop.some.url"] == "postgresql://me:********@db/shop?password=********"
    assert shown["capture.shop.database.user"] == "me"


def test_addresses() -> None:
    assert Address.parse("[::1]:9092") == Address("::1", 9092)
    assert str(Address("::1", 9092)) == "[::1]:9092"
    for wrong in ("::1:9092", "host", ":9092", "host:", "host:70000", "host:-1", "host:²"):
        with pytest.raises(ValueError, match=r"."):
            Address.parse(wrong)


def test_every_interface_needs_an_advertised_address() -> None:
    advertised = Address("db.example", 9092)
    read = GatewayConfig(kafka=Address("0.0.0.0", 9092), advertised=advertised)
    assert read.advertised == advertised
