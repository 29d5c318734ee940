"""Positions in Postgres' write-ahead log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TEXT: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_LIMIT: Final = 1 << 64


@dataclass(frozen=True, slots=True, order=True)
class Lsn:
    """A write-ahead log position: a byte offset of 64 bits, printed as Postgres does ("16/B374D848")."""

    value: int

    def __post_init__(self) -> None:
        if not 0 <= self.value < _LIMIT:
            raise ValueError(f"an lsn has 64 bits, not {self.value}")

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Read "16/B374D848"; raise ValueError on anything else."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not an lsn: {text!r}")
        return cls(int(match[1], 16) << 32 | int(match[2], 16))

    def __str__(self) -> str:
        return f"{self.value >> 32:X}/{self.value & 0xFFFFFFFF:X}"

    def __sub__(self, other: Lsn) -> int:
        """The distance in bytes."""
        return self.value - other.value


ZERO: Final = Lsn(0)
