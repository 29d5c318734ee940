"""The parser of pgoutput: messages recorded from PostgreSQL 18.4, and hostile bytes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.lsn import Lsn
from capture.postgres import pgoutput
from capture.postgres.pgoutput import Marker

M1 = 0x42ED
RECORDED = {
    "42 000000000c284120 000303be559f1976 0000033b": pgoutput.Begin(Lsn(0xC284120), 0x303BE559F1976, 0x33B),
    "43 00 000000000c284120 000000000c284150 000303be559f1976": pgoutput.Commit(
        Lsn(0xC284120), Lsn(0xC284150), 0x303BE559F1976
    ),
    "52 000042ed 7075626c696300 6d3100 64 0003 01 696400 00000017 ffffffff 00 6100 00000019 ffffffff"
    "00 6e00 000006a4 000a0006": pgoutput.Relation(
        M1,
        "public",
        "m1",
        "d",
        (
            pgoutput.RelationColumn("id", 23, -1, True),
            pgoutput.RelationColumn("a", 25, -1, False),
            pgoutput.RelationColumn("n", 1700, 655366, False),
        ),
    ),
    "49 000042ed 4e 0003 74 00000001 31 74 00000001 61 74 00000004 312e3530": pgoutput.Insert(
        M1, (b"1", b"a", b"1.50")
    ),
    "55 000042ed 4e 0003 74 00000001 31 74 00000001 62 74 00000004 312e3530": pgoutput.Update(
        M1, None, False, (b"1", b"b", b"1.50")
    ),
    "55 000042ed 4b 0003 74 00000001 31 6e 6e 4e 0003 74 00000001 32 74 00000001 62 75": pgoutput.Update(
        M1, (b"1", Marker.NULL, Marker.NULL), True, (b"2", b"b", Marker.UNCHANGED)
    ),
    "55 000042f5 4f 0001 74 00000001 31 4e 0001 74 00000001 32": pgoutput.Update(
        0x42F5, (b"1",), False, (b"2",)
    ),
    "44 000042ed 4b 0003 74 00000001 32 6e 6e": pgoutput.Delete(M1, (b"2", Marker.NULL, Marker.NULL), True),
    "44 000042f5 4f 0001 74 00000001 31": pgoutput.Delete(0x42F5, (b"1",), False),
    "54 00000002 01 000042ed 000042f5": pgoutput.Truncate((M1, 0x42F5), True, False),
    "54 00000001 02 000042ed": pgoutput.Truncate((M1,), False, True),
    "59 000042e9 7075626c696300 6d6f6f643200": pgoutput.Type(0x42E9, "public", "mood2"),
    "59 00004334 00 696e743400": pgoutput.Type(0x4334, "pg_catalog", "int4"),
    "4d 01 000000000c288c68 707800 00000002 6869": pgoutput.Message(True, Lsn(0xC288C68), "px", b"hi"),
    "4d 00 000000000c288cd0 707800 00000002 6869": pgoutput.Message(False, Lsn(0xC288CD0), "px", b"hi"),
    "4f 0000000000000abc 6f6f00": pgoutput.Origin(Lsn(0xABC), "oo"),
    "49 00004339 4e 0001 62 00000004 00000001": pgoutput.Insert(0x4339, (b"\x00\x00\x00\x01",)),
}


@pytest.mark.parametrize("text", RECORDED)
def test_reads_recorded_messages(text: str) -> None:
    assert pgoutput.parse(bytes.fromhex(text)) == RECORDED[text]


@pytest.mark.parametrize("text", RECORDED)
def test_refuses_every_truncation_and_a_byte_too_many(text: str) -> None:
    whole = bytes.fromhex(text)
    for length in range(len(whole)):
        with pytest.raises(pgoutput.PgOutputError):
            pgoutput.parse(whole[:length])
    with pytest.raises(pgoutput.PgOutputError):
        pgoutput.parse(whole + b"\x00")


@given(st.sampled_from(list(RECORDED)), st.data())
def test_a_changed_byte_raises_nothing_else(text: str, data: st.DataObject) -> None:
    message = bytearray.fromhex(text)
    for _ in range(data.draw(st.integers(1, 3))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(pgoutput.PgOutputError):
        pgoutput.parse(bytes(message))


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(message: bytes) -> None:
    with contextlib.suppress(pgoutput.PgOutputError):
        pgoutput.parse(message)
