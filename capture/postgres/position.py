"""Where a capture stands: what the log keeps, in the same commit as the records."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from capture.lsn import Lsn
from capture.postgres.visibility import TransactionSnapshot

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class HiddenTables:
    """Tables that were read later than the stream starts.

    Until the stream has passed `until`, changes of these relations by transactions that `snapshot` sees are
    in their snapshot rows already and are left out.
    """

    snapshot: TransactionSnapshot
    until: Lsn
    relations: frozenset[int]


@dataclass(frozen=True, slots=True)
class Position:
    """Where to go on. All that was committed before `lsn` is in the log, all that follows is not.

    `last_commit_lsn` is source.sequence[0]; `pending` are the relations whose rows are still to be read;
    `begun` says that this snapshot has records already; `dropped`, that the slot was dropped in order
    (slot.drop.on.stop), so that the capture begins anew.
    """

    lsn: Lsn
    last_commit_lsn: int | None = None
    pending: frozenset[int] = frozenset()
    begun: bool = False
    hidden: tuple[HiddenTables, ...] = ()
    dropped: bool = False

    def to_json(self) -> str:
        """The log's text; keys without content are left out."""
        value: dict[str, object] = {"format": _FORMAT, "lsn": str(self.lsn)}
        if self.last_commit_lsn is not None:
            value["last_commit_lsn"] = self.last_commit_lsn
        if self.pending:
            value["pending"] = sorted(self.pending)
            value["begun"] = self.begun
        if self.hidden:
            value["hidden"] = [[str(h.snapshot), str(h.until), sorted(h.relations)] for h in self.hidden]
        if self.dropped:
            value["dropped"] = True
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Read what `to_json` wrote; raise ValueError on anything else."""
        value = json.loads(text)
        if not isinstance(value, dict) or value.get("format") != _FORMAT:
            raise ValueError("not a position of this format")
        return cls(
            lsn=Lsn.parse(value["lsn"]),
            last_commit_lsn=value.get("last_commit_lsn"),
            pending=frozenset(value.get("pending", ())),
            begun=value.get("begun", False),
            hidden=tuple(
                HiddenTables(TransactionSnapshot.parse(snapshot), Lsn.parse(until), frozenset(relations))
                for snapshot, until, relations in value.get("hidden", ())
            ),
            dropped=value.get("dropped", False),
        )

    def advanced(self, lsn: Lsn, last_commit_lsn: int | None) -> Position:
        """The position after the stream has come to `lsn`; hidden tables that it has passed are dropped."""
        hidden = self.hidden
        if hidden:
            hidden = tuple(tables for tables in hidden if tables.until > lsn)
        return replace(self, lsn=max(lsn, self.lsn), last_commit_lsn=last_commit_lsn, hidden=hidden)

    def with_read(self, relations: frozenset[int], hidden: HiddenTables | None) -> Position:
        """The position after these relations' rows were read; `hidden` if on a snapshot of their own."""
        kept = self.hidden
        if hidden is not None:
            together = [tables for tables in kept if tables.snapshot == hidden.snapshot]
            joined = frozenset().union(relations, *(tables.relations for tables in together))
            kept = (*(t for t in kept if t not in together), replace(hidden, relations=joined))
        return replace(self, pending=self.pending - relations, begun=True, hidden=kept)

    def without_pending(self, relations: frozenset[int]) -> Position:
        """The position after these relations turned out to be gone."""
        return replace(self, pending=self.pending - relations)
