"""Reading properties from connector JSON, .properties files and connection URLs."""

from pathlib import Path

import pytest

from capture.options import OptionError, from_url, read_file, read_json, read_properties


def test_a_url_becomes_properties() -> None:
    assert from_url(
        "postgresql://ann:p%40ss@db.example:6543/shop?sslmode=verify-full&sslrootcert=ca.pem"
    ) == {
        "database.user": "ann",
        "database.password": "p@ss",
        "database.hostname": "db.example",
        "database.port": "6543",
        "database.dbname": "shop",
        "database.sslmode": "verify-full",
        "database.sslrootcert": "ca.pem",
    }
    assert from_url("host=db dbname=shop") == {"database.hostname": "db", "database.dbname": "shop"}


def test_a_url_with_other_parameters_is_refused() -> None:
    with pytest.raises(OptionError, match="carries options"):
        from_url("postgresql://db/shop?options=-cx%3D1")


def test_a_bad_url_is_refused_without_its_password() -> None:
    with pytest.raises(OptionError) as caught:
        from_url("postgresql://ann:secret@[db/shop")
    assert "secret" not in str(caught.value)


def test_connector_json_in_both_shapes() -> None:
    flat = {"topic.prefix": "shop", "tasks.max": 1}
    assert read_json('{"topic.prefix": "shop", "tasks.max": 1}', "a.json") == flat
    assert read_json('{"name": "c", "config": {"topic.prefix": "shop", "tasks.max": 1}}', "a.json") == {
        "name": "c",
        **flat,
    }


@pytest.mark.parametrize("text", ["", "[]", "1", '{"config": {}, "other": 1}', "{"])
def test_bad_json_is_refused_with_the_file(text: str) -> None:
    with pytest.raises(OptionError, match=r"a\.json"):
        read_json(text, "a.json")


def test_properties_are_read_as_java_does() -> None:
    text = """
    # a comment
    ! another
    topic.prefix=shop
    slot.name : my_slot
    publication.name   pub
    table.include.list = public.a,\\
        public.b
    unavailable.value.placeholder=a\\u00e9\\tb
    with\\:colon=1
    empty=
    """
    assert dict(read_properties(text, "c.properties")) == {
        "topic.prefix": "shop",
        "slot.name": "my_slot",
        "publication.name": "pub",
        "table.include.list": "public.a,public.b",
        "unavailable.value.placeholder": "aé\tb",
        "with:colon": "1",
        "empty": "",
    }


def test_a_property_set_twice_is_refused() -> None:
    with pytest.raises(OptionError, match="twice"):
        dict(read_properties("a=1\na=2", "c.properties"))


def test_the_suffix_tells_the_format(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"a": 1}')
    (tmp_path / "c.properties").write_text("a=1")
    assert read_file(tmp_path / "c.json") == {"a": 1}
    assert read_file(tmp_path / "c.properties") == {"a": "1"}
    with pytest.raises(OptionError, match="cannot read"):
        read_file(tmp_path / "missing.json")
