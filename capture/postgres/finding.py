"""One thing that a database lacks, or that will be felt later."""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARNING, INFO = "error", "warning", "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know: an error keeps the capture from starting, a warning will be felt later."""

    severity: str
    what: str
    where: str
    statement: str
    retry: bool = False
