"""Postgres' text form of arrays and of hstore."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from capture.envelope.errors import MalformedMessage

#: An element is its text, None for NULL, or a list for a nested dimension.
Element: TypeAlias = "bytes | list[Element] | None"

_BOUNDS: Final = re.compile(rb"(?:\[-?\d+:-?\d+\])+=", re.ASCII).match
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL).match
_BARE: Final = {
    delimiter: re.compile(rb'(?:[^{}"\\' + delimiter + rb"]|\\.)+", re.DOTALL).match
    for delimiter in (b",", b";", b":")
}
_UNESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL).sub
_MOST_DIMENSIONS: Final = 6


class _Reader:
    """A cursor over one literal."""

    def __init__(self, text: bytes, position: int) -> None:
        self.text = text
        self.position = position

    def take(self, token: bytes) -> bool:
        if self.text.startswith(token, self.position):
            self.position += len(token)
            return True
        return False

    def quoted(self) -> bytes | None:
        match = _QUOTED(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        return _UNESCAPE(rb"\1", match.group(1))

    def fail(self, what: str) -> MalformedMessage:
        return MalformedMessage(f"Postgres sent {what} that does not parse at byte {self.position}")


def parse_array(text: bytes, delimiter: bytes = b",") -> list[Element]:
    """The elements of an array literal; nested dimensions are nested lists (at most six, as in Postgres)."""
    bounds = _BOUNDS(text)
    reader = _Reader(text, bounds.end() if bounds else 0)
    if not reader.take(b"{"):
        raise reader.fail("an array")
    elements = _elements(reader, delimiter, 1)
    if reader.position != len(text):
        raise reader.fail("an array")
    return elements


def _elements(reader: _Reader, delimiter: bytes, depth: int) -> list[Element]:
    elements: list[Element] = []
    if reader.take(b"}"):
        return elements
    while True:
        elements.append(_element(reader, delimiter, depth))
        if reader.take(b"}"):
            return elements
        if not reader.take(delimiter):
            raise reader.fail("an array")


def _element(reader: _Reader, delimiter: bytes, depth: int) -> Element:
    if reader.take(b"{"):
        if depth >= _MOST_DIMENSIONS:
            raise reader.fail("an array of more than six dimensions")
        return _elements(reader, delimiter, depth + 1)
    quoted = reader.quoted()
    if quoted is not None:
        return quoted
    match = _BARE[delimiter](reader.text, reader.position)
    if match is None:
        raise reader.fail("an array")
    reader.position = match.end()
    return None if match.group() == b"NULL" else _UNESCAPE(rb"\1", match.group())


def parse_hstore(text: bytes) -> list[tuple[str, str | None]]:
    """The pairs of an hstore, in the order Postgres prints them."""
    reader = _Reader(text, 0)
    pairs: list[tuple[str, str | None]] = []
    while reader.position < len(text):
        if pairs and not reader.take(b", "):
            raise reader.fail("an hstore")
        key = reader.quoted()
        if key is None or not reader.take(b"=>"):
            raise reader.fail("an hstore")
        value = None if reader.take(b"NULL") else reader.quoted()
        if value is None and not text.endswith(b"NULL", 0, reader.position):
            raise reader.fail("an hstore")
        pairs.append(
            (key.decode("utf-8", "replace"), None if value is None else value.decode("utf-8", "replace"))
        )
    return pairs
