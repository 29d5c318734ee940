"""Schemas and subjects, as a Confluent Schema Registry knows them, in the catalog's file.

Ids are global and for ever: one is given once, never changed and never given again, and the same schema text
has the same id under every subject. Versions of a subject count from 1.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

from capture.log.database import Database


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema text under its id; `schema_type` is AVRO, JSON or PROTOBUF."""

    schema_id: int
    schema_type: str
    schema: str


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """One version of a subject."""

    subject: str
    version: int
    schema: Schema


class SchemaStore:
    """Registers and finds schemas; usable from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[tuple[str, str, str], int] = {}

    def register(self, subject: str, schema: str, schema_type: str = "AVRO") -> int:
        """Give the id of `schema`, durable when this returns; a new version of `subject` if it lacks it."""
        known = self._known.get((subject, schema_type, schema))
        if known is not None:
            return known
        digest = hashlib.sha256(f"{schema_type}\n{schema}".encode()).digest()
        with self._database.write() as connection:
            row = connection.execute("SELECT schema_id FROM schemas WHERE digest = ?", (digest,)).fetchone()
            if row is None:
                row = connection.execute(
                    "INSERT INTO schemas (schema_type, digest, schema) VALUES (?, ?, ?) RETURNING schema_id",
                    (schema_type, digest, schema),
                ).fetchone()
            schema_id: int = row[0]
            connection.execute(
                "INSERT INTO subjects (subject, version, schema_id) "
                "SELECT ?1, 1 + ifnull((SELECT max(version) FROM subjects WHERE subject = ?1), 0), ?2 "
                "WHERE NOT EXISTS (SELECT 1 FROM subjects "
                "WHERE subject = ?1 AND schema_id = ?2 AND deleted = 0)",
                (subject, schema_id),
            )
        self._known[subject, schema_type, schema] = schema_id
        return schema_id

    def by_id(self, schema_id: int) -> Schema | None:
        """The schema with this id, or None."""
        row = (
            self._database.connection()
            .execute("SELECT schema_id, schema_type, schema FROM schemas WHERE schema_id = ?", (schema_id,))
            .fetchone()
        )
        return Schema(*row) if row else None

    def subjects(self, prefix: str = "", deleted: bool = False) -> list[str]:
        """The names of the subjects that begin with `prefix`; with `deleted`, the deleted ones as well."""
        rows = self._database.connection().execute(
            "SELECT DISTINCT subject FROM subjects WHERE substr(subject, 1, length(?1)) = ?1 "
            "AND (deleted = 0 OR ?2) ORDER BY subject",
            (prefix, deleted),
        )
        return [row[0] for row in rows]

    def versions(self, subject: str, deleted: bool = False) -> list[int]:
        """The versions of a subject, ascending; none where there is no such subject."""
        rows = self._database.connection().execute(
            "SELECT version FROM subjects WHERE subject = ? AND (deleted = 0 OR ?) ORDER BY version",
            (subject, deleted),
        )
        return [row[0] for row in rows]

    def version(self, subject: str, version: int | Literal["latest"]) -> SubjectVersion | None:
        """A version of a subject by its number, or its latest; None where there is none."""
        row = (
            self._database.connection()
            .execute(
                "SELECT version, schema_id, schema_type, schema FROM subjects JOIN schemas USING (schema_id) "
                "WHERE subject = ?1 AND deleted = 0 AND (?2 = 'latest' OR version = ?2) "
                "ORDER BY version DESC LIMIT 1",
                (subject, version),
            )
            .fetchone()
        )
        return SubjectVersion(subject, row[0], Schema(*row[1:])) if row else None

    def subjects_of(self, schema_id: int) -> list[str]:
        """The subjects that use a schema."""
        return sorted({subject for subject, _ in self.versions_of(schema_id)})

    def versions_of(self, schema_id: int) -> list[tuple[str, int]]:
        """Every (subject, version) that uses a schema."""
        rows = self._database.connection().execute(
            "SELECT subject, version FROM subjects WHERE schema_id = ? AND deleted = 0 "
            "ORDER BY subject, version",
            (schema_id,),
        )
        return [(row[0], row[1]) for row in rows]
