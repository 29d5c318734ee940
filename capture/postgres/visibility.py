"""Which transactions a snapshot has seen.

pg_current_snapshot() prints `xmin:xmax:xip,…` with 64-bit transaction ids; pgoutput's Begin carries only
the lower 32 bits, so they are widened around the snapshot's xmax (PostgreSQL documentation, "Transaction
ID and Snapshot Information Functions"). Both sides know top-level ids only, so the answer is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_EPOCH: Final = 1 << 32
_HALF: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class TransactionSnapshot:
    """The transactions below `xmax` that were not in progress were over, and are visible if committed."""

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> TransactionSnapshot:
        """Read pg_current_snapshot()'s text; raise ValueError on anything else."""
        parts = text.split(":")
        if len(parts) != 3:
            raise ValueError(f"not a snapshot: {text!r}")
        running = frozenset(int(xid) for xid in parts[2].split(",") if xid)
        return cls(int(parts[0]), int(parts[1]), running)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.in_progress)))}"

    def sees(self, xid: int) -> bool:
        """Whether a committed transaction, by its 32-bit id, is part of this snapshot."""
        wide = self._widen(xid)
        return wide < self.xmax and (wide < self.xmin or wide not in self.in_progress)

    def _widen(self, xid: int) -> int:
        """The 64-bit id nearest to xmax: live ids are never more than 2^31 apart."""
        wide = (self.xmax & ~(_EPOCH - 1)) | xid
        if wide - self.xmax >= _HALF:
            return wide - _EPOCH
        if self.xmax - wide > _HALF:
            return wide + _EPOCH
        return wide
