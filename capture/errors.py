"""What may go wrong with a source, in words for the person who runs it."""

from __future__ import annotations


class CaptureError(Exception):
    """A capture cannot go on: what failed, what an operator can do, and whether trying again may help."""

    def __init__(self, what: str, remedy: str, *, retry: bool = False) -> None:
        super().__init__(f"{what}. {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy
        self.retry = retry
