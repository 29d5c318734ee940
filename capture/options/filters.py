"""Which schemas, tables and columns are captured, and which columns make a key.

Debezium's rules: comma-separated regular expressions that must match the whole name, without regard to
case; a comma inside an expression is written with a backslash before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Debezium's table.ignore.builtin: never captured, whatever the lists say.
_BUILTIN_SCHEMAS: Final = re.compile(r"pg_catalog|information_schema|pg_toast|pg_temp.*|pg_toast_temp.*")
_BUILTIN_TABLES: Final = frozenset({"spatial_ref_sys"})
_UNESCAPED_COMMA: Final = re.compile(r"(?<!\\),")


@dataclass(frozen=True, slots=True)
class NameList:
    """Regular expressions, any of which may match a whole name."""

    patterns: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> NameList:
        """Read Debezium's comma-separated form; raise ValueError on a bad expression."""
        parts = [part.strip().replace("\\,", ",") for part in _UNESCAPED_COMMA.split(text)]
        return cls(tuple(_expression(part) for part in parts if part))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def matches(self, name: str) -> bool:
        """Whether one of the expressions is the whole name."""
        return any(pattern.fullmatch(name) for pattern in self.patterns)

    def rank(self, name: str) -> int:
        """The place of the first expression that matches; their number if none does."""
        for place, pattern in enumerate(self.patterns):
            if pattern.fullmatch(name):
                return place
        return len(self.patterns)


@dataclass(frozen=True, slots=True)
class NameFilter:
    """An include list or an exclude list of the same kind of name; never both."""

    include: NameList = NameList()
    exclude: NameList = NameList()

    def accepts(self, name: str) -> bool:
        """Whether the name is on the include list, or not on the exclude list."""
        if self.include:
            return self.include.matches(name)
        return not self.exclude.matches(name)


@dataclass(frozen=True, slots=True)
class TableFilter:
    """The tables of a capture: both the schema and `schema.table` must be accepted."""

    schemas: NameFilter = NameFilter()
    tables: NameFilter = NameFilter()

    def accepts(self, schema: str, table: str) -> bool:
        """Whether a table is captured."""
        if _BUILTIN_SCHEMAS.fullmatch(schema) or table in _BUILTIN_TABLES:
            return False
        return self.schemas.accepts(schema) and self.tables.accepts(f"{schema}.{table}")

    def order(self, schema: str, table: str) -> tuple[int, str, str]:
        """Debezium's order of a snapshot: one include pattern after the other, by name within each."""
        return self.tables.include.rank(f"{schema}.{table}"), schema, table


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Columns that make the key of every table that the expression matches."""

    tables: re.Pattern[str]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyRules:
    """message.key.columns: `tableRegex:column,column;…`; the first rule that matches counts."""

    rules: tuple[KeyRule, ...] = ()

    @classmethod
    def parse(cls, text: str) -> KeyRules:
        """Read the property's text; raise ValueError where a rule has no `:` or no column."""
        rules = []
        for part in filter(None, (part.strip() for part in text.split(";"))):
            table, colon, columns = part.rpartition(":")
            names = tuple(name.strip() for name in columns.split(",") if name.strip())
            if not colon or not table.strip() or not names:
                raise ValueError(f"{part!r} is not of the form table:column,column")
            rules.append(KeyRule(_expression(table.strip()), names))
        return cls(tuple(rules))

    def columns_of(self, schema: str, table: str) -> tuple[str, ...] | None:
        """The key columns that a rule gives the table; None if no rule matches."""
        for rule in self.rules:
            if rule.tables.fullmatch(f"{schema}.{table}"):
                return rule.columns
        return None


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
