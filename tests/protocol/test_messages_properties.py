"""For every message and version: what was encoded is decoded, and no bytes do worse than a DecodeError."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.message import decode, encode
from tests.protocol.every_message import EVERY, IDS, values

quick = settings(
    max_examples=6,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize(("cls", "version"), EVERY, ids=IDS)
@quick
@given(data=st.data())
def test_what_was_encoded_is_decoded(cls: type, version: int, data: st.DataObject) -> None:
    value = data.draw(values(cls, version))
    wire = b"".join(encode(value, version))
    assert decode(cls, version, wire) == value
    # From the middle of a buffer, and with bytes after it, as librdkafka sends them.
    assert decode(cls, version, memoryview(b"\xff" + wire + b"\xff\xff"), 1) == value


@pytest.mark.parametrize(("cls", "version"), EVERY, ids=IDS)
@quick
@given(data=st.data())
def test_damaged_bytes_raise_only_decode_errors(cls: type, version: int, data: st.DataObject) -> None:
    wire = b"".join(encode(data.draw(values(cls, version)), version))
    random = Random(data.draw(st.integers(0, 2**32)))
    for cut in {random.randrange(len(wire) + 1) for _ in range(20)} - {len(wire)}:
        with pytest.raises(DecodeError):
            decode(cls, version, wire[:cut])
    for _ in range(40):
        damaged = bytearray(wire)
        for _ in range(random.randint(1, 4)):
            if damaged:
                byte = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))
                damaged[random.randrange(len(damaged))] = byte
        attempt(cls, version, bytes(damaged))
        attempt(cls, version, random.randbytes(random.randrange(60)))


def attempt(cls: type, version: int, wire: bytes) -> None:
    try:
        value = decode(cls, version, wire)
    except DecodeError:
        return
    # What was understood can be written again, and then means the same.
    assert decode(cls, version, b"".join(encode(value, version))) == value
