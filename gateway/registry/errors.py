"""Errors of the schema registry, with Confluent's codes; one function renders them all."""

from http import HTTPStatus
from typing import Final

SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403
SUBJECT_LEVEL_COMPATIBILITY_NOT_CONFIGURED: Final = 40408
SUBJECT_LEVEL_MODE_NOT_CONFIGURED: Final = 40409
INVALID_SCHEMA: Final = 42201
INVALID_VERSION: Final = 42202
OPERATION_NOT_PERMITTED: Final = 42205
STORE_ERROR: Final = 50001


class RegistryError(Exception):
    """An error answer. The HTTP status is the first three digits of the code, as in Confluent's registry."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.status = error_code if error_code < 1000 else error_code // 100
        self.message = message

    @property
    def body(self) -> dict[str, object]:
        """What clients parse."""
        return {"error_code": self.error_code, "message": self.message}


def http_error(status: int) -> RegistryError:
    """An error of HTTP itself: an unknown path, a method that a path does not have, a body too large."""
    return RegistryError(status, f"HTTP {status} {HTTPStatus(status).phrase}")


def subject_not_found(subject: str) -> RegistryError:
    """There is no such subject."""
    return RegistryError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    """The subject has no such version."""
    return RegistryError(VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    """There is no such schema, or not under this subject."""
    return RegistryError(
        SCHEMA_NOT_FOUND, "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    )


def invalid_version(version: str) -> RegistryError:
    """What stands for a version is none."""
    return RegistryError(
        INVALID_VERSION,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def not_permitted(what: str) -> RegistryError:
    """The registry is read-only: schemas come from the captured tables alone."""
    return RegistryError(
        OPERATION_NOT_PERMITTED,
        f"{what} is not permitted: this registry is read-only, its schemas follow the captured tables",
    )
