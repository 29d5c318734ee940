"""Both encoders give the same batches, and fail alike, over random schemas and rows."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture.envelope import (
    COMPILED,
    Encoder,
    EnvelopeError,
    Plan,
    SnapshotMarker,
    Table,
    message_plan,
    new_encoder,
    plan_for,
    topic_name,
)
from capture.envelope.options import Encoding
from tests.capture.envelope import frames
from tests.capture.envelope.column_values import Kind, all_options, tables

pytestmark = pytest.mark.skipif(not COMPILED, reason="the compiled encoder is not built")

OID = 16_400
NOW = 1_795_224_705_608_749_081
SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=250)

Step = tuple[Any, ...]


@st.composite
def cells(draw: st.DrawFn, kinds: list[Kind], *, unchanged: bool = False) -> list[object]:
    """A row as the stream has it."""
    out: list[object] = []
    for kind in kinds:
        choice = draw(st.integers(0, 9))
        if choice == 0:
            out.append(None)
        elif choice == 1 and unchanged:
            out.append(frames.UNCHANGED)
        else:
            out.append(draw(kind.text))
    return out


@st.composite
def key_only(draw: st.DrawFn, kinds: list[Kind], table: Table) -> list[object]:
    """A `K` tuple."""
    whole = draw(cells(kinds))
    return [
        cell if column.name in table.key else None for cell, column in zip(whole, table.columns, strict=True)
    ]


@st.composite
def change(draw: st.DrawFn, kinds: list[Kind], table: Table, lsn: int) -> bytes:
    """One change of the table."""
    match draw(st.sampled_from(("insert", "update", "update", "keyed", "delete", "delete_key", "truncate"))):
        case "insert":
            return frames.insert(lsn, OID, draw(cells(kinds)))
        case "update":
            old = draw(st.one_of(st.none(), cells(kinds)))
            return frames.update(lsn, OID, draw(cells(kinds, unchanged=True)), old)
        case "keyed":
            new = draw(cells(kinds, unchanged=True))
            return frames.update(lsn, OID, new, draw(key_only(kinds, table)), b"K")
        case "delete":
            return frames.delete(lsn, OID, draw(cells(kinds)))
        case "delete_key":
            return frames.delete(lsn, OID, draw(key_only(kinds, table)), b"K")
        case _:
            return frames.truncate(lsn, OID)


@st.composite
def snapshot_row(draw: st.DrawFn, kinds: list[Kind], plan: Plan) -> bytes:
    """A row of COPY BINARY."""
    fields: list[bytes | None] = []
    for index, binary in zip(plan.copied, plan.copied_binary, strict=True):
        kind = kinds[index]
        source = kind.binary if binary and kind.binary is not None else kind.text
        fields.append(draw(st.one_of(st.none(), source, source, source)))
    return frames.copy_row(fields)


@st.composite
def stories(draw: st.DrawFn, encoding: st.SearchStrategy[Encoding]) -> tuple[Any, list[Step]]:
    """Options, plan, and what happens to an encoder."""
    table, kinds = draw(tables())
    options = draw(all_options(encoding))
    topic = topic_name(options, table.schema, table.name)
    plan = plan_for(table, options, topic=topic, ids=lambda subject, schema: 300)
    steps: list[Step] = []
    lsn, now = draw(st.sampled_from((100, 2**32, 2**63))), NOW
    for _ in range(draw(st.integers(0, 3))):
        marker = draw(st.sampled_from(SnapshotMarker))
        steps.append(("feed_copy", OID, draw(snapshot_row(kinds, plan)), marker, now))
    for xid in range(draw(st.integers(1, 3))):
        now += draw(st.integers(-(10**9), 10**9))
        commit_us = draw(st.sampled_from((1_795_224_705_140_135, -1)))
        steps.append(("feed", frames.begin(lsn, lsn + 90, commit_us, 2**32 - 1 - xid), now))
        if draw(st.integers(0, 4)) == 0:
            steps.append(("feed", frames.origin(lsn, "upstrëam".encode(), 12), now))
        for _ in range(draw(st.integers(0, 4))):
            lsn += draw(st.integers(0, 3))
            steps.append(("feed", draw(change(kinds, table, lsn)), now))
            if draw(st.integers(0, 5)) == 0:
                steps.append(("take", draw(st.booleans())))
            if draw(st.integers(0, 9)) == 0:
                steps.append(("emit_message", "prefix", b"\x00hi", lsn, True, now))
        if draw(st.integers(0, 9)) == 0:
            steps.append(("discard_open",))
        else:
            steps.append(("feed", frames.commit(lsn + 90, lsn + 100, commit_us), now))
        lsn += 200
        steps.append(("take", False))
    return (options, plan), steps


def perform(encoder: Encoder, step: Step) -> Any:
    """Do one step; what came of it."""
    name, *arguments = step
    try:
        if name == "take":
            return encoder.take(include_open=arguments[0])
        return getattr(encoder, name)(*arguments)
    except EnvelopeError as error:
        return type(error), str(error)


def prepared(options: Any, plan: Plan, *, compiled: bool) -> Encoder:
    """An encoder that knows the table."""
    encoder = new_encoder(options, compiled=compiled)
    encoder.set_relation(OID, plan, range(len(plan.table.columns)))
    encoder.set_message_plan(message_plan(options, ids=lambda subject, schema: 2))
    encoder.set_snapshot(77, 5, 1_795_224_705_140_135)
    return encoder


def state(encoder: Encoder) -> tuple[Any, ...]:
    """All that an encoder shows."""
    return (
        encoder.last_commit_lsn,
        encoder.in_transaction,
        encoder.commit_end_lsn,
        encoder.pending_bytes,
        encoder.counters,
    )


@SLOW
@given(stories(st.sampled_from(Encoding)))
def test_the_same_bytes(story: tuple[Any, list[Step]]) -> None:
    (options, plan), steps = story
    compiled = prepared(options, plan, compiled=True)
    generated = prepared(options, plan, compiled=False)
    for step in steps:
        ours, theirs = perform(compiled, step), perform(generated, step)
        assert ours == theirs, step
        assert state(compiled) == state(generated), step
    assert compiled.take(include_open=True) == generated.take(include_open=True)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=120)
@given(stories(st.sampled_from(Encoding)), st.integers(0, 2**32))
def test_damaged_messages_fail_alike_and_leave_no_trace(story: tuple[Any, list[Step]], seed: int) -> None:
    (options, plan), steps = story
    chance = random.Random(seed)
    compiled = prepared(options, plan, compiled=True)
    generated = prepared(options, plan, compiled=False)
    for step in steps:
        for damaged in (damage(step, chance) for _ in range(6)):
            if damaged[0] in ("feed", "feed_copy"):
                before = state(compiled)
                ours, theirs = perform(compiled, damaged), perform(generated, damaged)
                assert ours == theirs, damaged
                if isinstance(ours, tuple):
                    assert state(compiled) == before
        assert perform(compiled, step) == perform(generated, step), step
        assert state(compiled) == state(generated), step


def damage(step: Step, chance: random.Random) -> Step:
    """The step with its bytes changed here and there."""
    if step[0] not in ("feed", "feed_copy"):
        return step
    place = 1 if step[0] == "feed" else 2
    raw = bytearray(step[place])
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(raw)) if raw else 0
        match chance.randrange(5):
            case 0 if raw:
                raw[at] = chance.randrange(256)
            case 1 if raw:
                raw[at] ^= 1 << chance.randrange(8)
            case 2:
                del raw[at:]
            case 3:
                raw[at:at] = chance.randbytes(chance.randint(1, 4))
            case _:
                raw[at : at + 4] = chance.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00")
                )
    return (*step[:place], bytes(raw), *step[place + 1 :])
