"""The lsn value type."""

import pytest

from capture.lsn import Lsn


@pytest.mark.parametrize(
    ("text", "value"), [("0/0", 0), ("16/B374D848", 0x16B374D848), ("FFFFFFFF/FFFFFFFF", (1 << 64) - 1)]
)
def test_reads_and_prints_as_postgres_does(text: str, value: int) -> None:
    assert Lsn.parse(text) == Lsn(value)
    assert str(Lsn(value)) == text


@pytest.mark.parametrize(
    "text", ["", "16", "16/", "/1", "G/1", "1/1/1", "123456789/0", " 1/1", "1/1\n", "-1/1"]
)
def test_refuses_everything_else(text: str) -> None:
    with pytest.raises(ValueError):
        Lsn.parse(text)


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_has_64_bits(value: int) -> None:
    with pytest.raises(ValueError):
        Lsn(value)


def test_orders_and_measures() -> None:
    assert Lsn.parse("1/0") > Lsn.parse("0/FFFFFFFF")
    assert Lsn.parse("1/0") - Lsn.parse("0/FFFFFFFF") == 1
