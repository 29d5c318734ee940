"""Regular expression lists: whole names, without regard to case, commas escaped."""

import pytest

from capture.options import KeyRules, NameFilter, NameList, TableFilter


def tables(include: str = "", exclude: str = "", schemas: str = "") -> TableFilter:
    return TableFilter(
        NameFilter(NameList.parse(schemas)), NameFilter(NameList.parse(include), NameList.parse(exclude))
    )


def test_an_expression_must_match_the_whole_name() -> None:
    assert tables("public.t").accepts("public", "t")
    assert not tables("public.t").accepts("public", "t2")
    assert tables("public.t.*").accepts("public", "t2")
    assert tables("public.*").accepts("public", "anything")


def test_case_does_not_count() -> None:
    assert tables("PUBLIC.orders").accepts("public", "Orders")


def test_an_escaped_comma_stays_in_its_expression() -> None:
    names = NameList.parse(r"a{1\,2}, b")
    assert [names.matches(name) for name in ("a", "aa", "aaa", "b", " b")] == [True, True, False, True, False]


def test_an_exclude_list_takes_away() -> None:
    assert tables(exclude="public.audit_.*").accepts("public", "orders")
    assert not tables(exclude="public.audit_.*").accepts("public", "audit_2026")


def test_schema_and_table_must_both_pass() -> None:
    only = tables("public.a,app.a", schemas="app")
    assert only.accepts("app", "a")
    assert not only.accepts("public", "a")
    assert not only.accepts("app", "b")


@pytest.mark.parametrize(
    ("schema", "table"),
    [
        ("pg_catalog", "pg_class"),
        ("information_schema", "tables"),
        ("pg_toast", "t"),
        ("pg_temp_3", "t"),
        ("public", "spatial_ref_sys"),
    ],
)
def test_builtin_tables_are_never_captured(schema: str, table: str) -> None:
    assert not tables(".*").accepts(schema, table)


def test_a_snapshot_follows_the_include_list_then_names() -> None:
    only = tables(r"public\.z.*,public\..*")
    names = ["b", "a", "zz", "z"]
    assert sorted(names, key=lambda name: only.order("public", name)) == ["z", "zz", "a", "b"]


def test_key_rules_give_columns_in_the_order_of_the_rule() -> None:
    rules = KeyRules.parse(r"public.t:id,k2;(.*)\.u:b ")
    assert rules.columns_of("public", "t") == ("id", "k2")
    assert rules.columns_of("other", "U") == ("b",)
    assert rules.columns_of("public", "x") is None


@pytest.mark.parametrize("text", ["t", "t:", ":a", "t:,", "(:a"])
def test_bad_key_rules_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        KeyRules.parse(text)
