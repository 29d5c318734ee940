"""Which transactions a snapshot has seen, by 32-bit ids."""

import pytest

from capture.postgres.visibility import TransactionSnapshot


def test_reads_what_postgres_prints() -> None:
    snapshot = TransactionSnapshot.parse("10:20:10,14")
    assert snapshot == TransactionSnapshot(10, 20, frozenset({10, 14}))
    assert str(snapshot) == "10:20:10,14"
    assert str(TransactionSnapshot.parse("5:5:")) == "5:5:"


@pytest.mark.parametrize("text", ["", "1:2", "1:2:3:4", "a:2:", "1:2:x"])
def test_refuses_everything_else(text: str) -> None:
    with pytest.raises(ValueError):
        TransactionSnapshot.parse(text)


@pytest.mark.parametrize(
    ("xid", "seen"), [(9, True), (10, False), (11, True), (14, False), (19, True), (20, False), (1000, False)]
)
def test_sees_what_was_over(xid: int, seen: bool) -> None:
    assert TransactionSnapshot.parse("10:20:10,14").sees(xid) is seen


def test_looks_through_the_wrap_of_32_bits() -> None:
    epoch = 1 << 32
    after = TransactionSnapshot(3 * epoch + 5, 3 * epoch + 10, frozenset({3 * epoch + 5}))
    assert after.sees(0xFFFFFFF0)  # of the epoch before
    assert after.sees(4)
    assert not after.sees(5)
    assert not after.sees(11)
    before = TransactionSnapshot(3 * epoch - 5, 3 * epoch - 2, frozenset({3 * epoch - 5}))
    assert before.sees(0xFFFFFFF0)
    assert not before.sees(0xFFFFFFFB)
    assert not before.sees(3)  # of the next epoch
