"""What the schema registry answers, without HTTP: subjects, versions and schemas as Confluent's clients know
them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from capture.log import Schema, SchemaStore, SubjectVersion
from gateway.registry.errors import (
    INVALID_SCHEMA,
    RegistryError,
    invalid_version,
    not_permitted,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from gateway.registry.same_schema import schema_digest

MAX_VERSION: Final = 2**31 - 1
DEFAULT_SCHEMA_TYPE: Final = "AVRO"
DEFAULT_CONTEXT: Final = ":.:"
"""How a client writes the only context there is before a subject."""
ALL_CONTEXTS: Final = ":*:"
SUBJECTS_LIMIT: Final = 20_000
SCHEMAS_LIMIT: Final = 1_000

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list; a negative limit means the default."""

    offset: int = 0
    limit: int = -1

    def of(self, everything: list[Any], default_limit: int) -> list[Any]:
        """The part."""
        limit = default_limit if self.limit < 0 else min(self.limit, default_limit)
        return everything[self.offset : self.offset + limit]


class SchemaReading:
    """Reads of the registry's API; all errors are RegistryError."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._digests = lru_cache(maxsize=4096)(self._digest_of)

    # Schemas.

    def schema(self, schema_id: int) -> Body:
        """The schema with an id, as deserializers ask for it."""
        schema = self._by_id(schema_id)
        return {"schema": schema.schema, **_type_and_references(schema)}

    def schema_text(self, schema_id: int) -> str:
        """The bare text of a schema."""
        return self._by_id(schema_id).schema

    def schema_subjects(self, schema_id: int, page: Page) -> list[str]:
        """The subjects that use a schema."""
        self._by_id(schema_id)
        return page.of(self._store.subjects_of(schema_id), SUBJECTS_LIMIT)

    def schema_versions(self, schema_id: int, page: Page) -> list[Body]:
        """The subjects and versions that use a schema."""
        self._by_id(schema_id)
        versions = [
            {"subject": subject, "version": version}
            for subject, version in self._store.versions_of(schema_id)
        ]
        return page.of(versions, SCHEMAS_LIMIT)

    def schemas(self, prefix: str, *, latest_only: bool, page: Page) -> list[Body]:
        """All versions of all subjects that begin with `prefix`, or the latest of each."""
        found: list[tuple[str, int]] = []
        for subject in self._store.subjects(_subject(prefix)):
            versions = self._store.versions(subject)
            found += [(subject, version) for version in (versions[-1:] if latest_only else versions)]
        parts = (self._store.version(*one) for one in page.of(found, SCHEMAS_LIMIT))
        return [_version(part) for part in parts if part is not None]

    # Subjects.

    def subjects(self, prefix: str, *, deleted: bool, deleted_only: bool, page: Page) -> list[str]:
        """The subjects that begin with `prefix`."""
        prefix = _subject(prefix)
        present = self._store.subjects(prefix)
        if deleted_only:
            named = set(present)
            present = [one for one in self._store.subjects(prefix, deleted=True) if one not in named]
        elif deleted:
            present = self._store.subjects(prefix, deleted=True)
        return page.of(present, SUBJECTS_LIMIT)

    def versions(self, subject: str, *, deleted: bool, page: Page) -> list[int]:
        """The versions of a subject."""
        versions = self._store.versions(_subject(subject), deleted)
        if not versions:
            raise subject_not_found(subject)
        return page.of(versions, SCHEMAS_LIMIT)

    def version(self, subject: str, version: str) -> Body:
        """A version of a subject: a number, "latest", or "-1" for the latest."""
        return _version(self._subject_version(subject, version))

    def version_text(self, subject: str, version: str) -> str:
        """The bare text of a version."""
        return self._subject_version(subject, version).schema.schema

    def referenced_by(self, subject: str, version: str) -> list[int]:
        """The ids of schemas that refer to a version: none do, each schema is whole."""
        self._subject_version(subject, version)
        return []

    # Questions that bring a schema.

    def lookup(self, subject: str, body: object) -> Body:
        """The version of a subject that has this schema."""
        schema, schema_type = _schema_of(body)
        if not self._store.versions(_subject(subject)):
            raise subject_not_found(subject)
        found = self._find(_subject(subject), schema, schema_type)
        if found is None:
            raise schema_not_found()
        return _version(found)

    def register(self, subject: str, body: object) -> Body:
        """The id of a schema that the subject has; a new one is refused."""
        schema, schema_type = _schema_of(body)
        found = self._find(_subject(subject), schema, schema_type)
        if found is None:
            raise not_permitted(f"registering a schema under subject '{subject}'")
        return {"id": found.schema.schema_id}

    def compatible(self, subject: str, version: str | None, body: object, *, verbose: bool) -> Body:
        """Whether a schema may follow: with compatibility level NONE any may, if it is a schema at all."""
        _schema_of(body)
        if version is not None:
            self._subject_version(subject, version)
        return {"is_compatible": True, "messages": []} if verbose else {"is_compatible": True}

    # Parts.

    def _by_id(self, schema_id: int) -> Schema:
        schema = self._store.by_id(schema_id)
        if schema is None:
            raise schema_not_found(schema_id)
        return schema

    def _subject_version(self, subject: str, text: str) -> SubjectVersion:
        number = parse_version(text)
        found = self._store.version(_subject(subject), number)
        if found is not None:
            return found
        if not self._store.versions(_subject(subject)):
            raise subject_not_found(subject)
        raise version_not_found(number)

    def _find(self, subject: str, schema: str, schema_type: str) -> SubjectVersion | None:
        wanted = _digest(schema, schema_type)
        for number in reversed(self._store.versions(subject)):
            found = self._store.version(subject, number)
            if found is not None and self._digests(found.schema.schema_id) == wanted:
                return found
        return None

    def _digest_of(self, schema_id: int) -> bytes:
        schema = self._by_id(schema_id)
        return schema_digest(schema.schema, schema.schema_type)


def parse_version(text: str) -> int | Literal["latest"]:
    """A version as it stands in a path.

    :raises RegistryError: 42202.
    """
    if text in ("latest", "-1"):
        return "latest"
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_VERSION))):
        raise invalid_version(text)
    number = int(text)
    if not 1 <= number <= MAX_VERSION:
        raise invalid_version(text)
    return number


def _subject(name: str) -> str:
    """A subject without the default context that clients may put before it."""
    return name.removeprefix(DEFAULT_CONTEXT).removeprefix(ALL_CONTEXTS)


def _schema_of(body: object) -> tuple[str, str]:
    """Schema and type of a request's body."""
    if not isinstance(body, Mapping):
        raise RegistryError(INVALID_SCHEMA, 'Invalid schema: the body must be an object with a "schema"')
    schema, schema_type = body.get("schema"), body.get("schemaType") or DEFAULT_SCHEMA_TYPE
    if not isinstance(schema, str) or not schema:
        raise RegistryError(INVALID_SCHEMA, "Empty schema")
    if schema_type not in ("AVRO", "JSON", "PROTOBUF"):
        raise RegistryError(INVALID_SCHEMA, f"Invalid schema type {schema_type}")
    _digest(schema, schema_type)
    return schema, str(schema_type)


def _digest(schema: str, schema_type: str) -> bytes:
    try:
        return schema_digest(schema, schema_type)
    except ValueError as error:
        raise RegistryError(INVALID_SCHEMA, f"Invalid schema of type {schema_type}: {error}") from error


def _version(found: SubjectVersion) -> Body:
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.schema.schema_id,
        **_type_and_references(found.schema),
        "schema": found.schema.schema,
    }


def _type_and_references(schema: Schema) -> Body:
    """`schemaType` is left out for Avro, as clients older than it expect."""
    return {} if schema.schema_type == DEFAULT_SCHEMA_TYPE else {"schemaType": schema.schema_type}
