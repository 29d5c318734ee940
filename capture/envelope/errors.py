"""What can go wrong between a row and its bytes."""

from __future__ import annotations


class EnvelopeError(ValueError):
    """A row or a table cannot be written as an envelope; the message says which, why and what helps."""


class MalformedMessage(EnvelopeError):
    """The bytes from Postgres are not what the protocol or the column's type promises."""


class UnrepresentableValue(EnvelopeError):
    """A value of a NOT NULL column has no form in the chosen handling mode (NaN under `precise`)."""


class InvalidName(EnvelopeError):
    """A database identifier cannot be a field or record name in the chosen encoding."""
