"""How a Kafka message is declared, and the two functions that turn it into bytes and back.

A message is a class with typed attributes; one class covers all versions:

    @message(key=2, versions="1-10", flexible="6+")
    class ListOffsetsRequest:
        replica_id: int32 = -1
        isolation_level: int8 = field("2+", default=0)
        topics: list[ListOffsetsTopic]

Nested structs are declared with `@struct`. Attributes are keyword-only in the constructor. An attribute that
the decoded version lacks holds its default; one that the encoded version lacks is not written. Tagged fields
that are not declared are kept in `unknown_tagged_fields` (a mapping of tag to bytes) and written back.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar, dataclass_transform, overload

from protocol import compile as compiled
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.schema import (
    UNKNOWN_TAGGED_FIELDS,
    FieldSpec,
    Kind,
    Message,
    Versions,
    Wire,
    read_struct,
)

int8: TypeAlias = Annotated[int, Wire(Kind.INT8)]
int16: TypeAlias = Annotated[int, Wire(Kind.INT16)]
int32: TypeAlias = Annotated[int, Wire(Kind.INT32)]
int64: TypeAlias = Annotated[int, Wire(Kind.INT64)]
Records: TypeAlias = Annotated[bytes | bytearray | memoryview, Wire(Kind.RECORDS)]
"""Record batches as they lie in the log. Decoded, it is a memoryview of the message; it is never copied."""

Buffer: TypeAlias = bytes | bytearray | memoryview

_T = TypeVar("_T")
_DECLARED: Final = "__declared__"
_NO_TAGGED_FIELDS: Final[Mapping[int, bytes]] = types.MappingProxyType({})


@overload
def field(versions: str = ..., *, default: _T, nullable: str = ..., tag: int | None = ...) -> _T: ...
@overload
def field(
    versions: str = ..., *, default_factory: Callable[[], _T], nullable: str = ..., tag: int | None = ...
) -> _T: ...
@overload
def field(versions: str = ..., *, nullable: str = ..., tag: int | None = ...) -> Any: ...
def field(
    versions: str = "0+",
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    nullable: str = "none",
    tag: int | None = None,
) -> Any:
    """Say in which versions a field exists, and in which of them it may be null or is a tagged field.

    A field that some versions lack, and a tagged field, must state a default; a tagged struct's is None.
    """
    spec = FieldSpec(Versions.parse(versions), Versions.parse(nullable), tag)
    metadata = {"wire": spec}
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[_T]) -> type[_T]:
    """Declare a struct that messages contain; its versions are those of the message."""
    cls.__annotations__[UNKNOWN_TAGGED_FIELDS] = Mapping[int, bytes]
    setattr(cls, UNKNOWN_TAGGED_FIELDS, dataclasses.field(default=None, init=False, repr=False))
    made = dataclasses.dataclass(kw_only=True)(cls)
    setattr(made, UNKNOWN_TAGGED_FIELDS, _NO_TAGGED_FIELDS)
    return made


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(*, key: int, versions: str, flexible: str) -> Callable[[type[_T]], type[_T]]:
    """Declare a request or response: its API key, the versions known, those with compact types and tags."""

    def declare(cls: type[_T]) -> type[_T]:
        made = struct(cls)
        setattr(made, _DECLARED, (key, Versions.parse(versions), Versions.parse(flexible)))
        return made

    return declare


_messages: dict[type, Message] = {}


def schema(cls: type) -> Message:
    """The model of a declared message; raise TypeError for a class that declares none."""
    try:
        return _messages[cls]
    except KeyError:
        pass
    declared = cls.__dict__.get(_DECLARED)
    if declared is None:
        raise TypeError(f"{cls.__name__} is not declared with @message")
    key, versions, flexible = declared
    found = _messages[cls] = Message(key, versions, flexible, read_struct(cls))
    return found


def api_key(cls: type) -> int:
    """The API key of a declared message."""
    return schema(cls).api_key


def versions(cls: type) -> range:
    """All declared versions of a message."""
    declared = schema(cls).versions
    return range(declared.first, declared.last + 1)


def is_flexible(cls: type, version: int) -> bool:
    """Whether this version has compact types and tagged fields (KIP-482)."""
    return version in schema(cls).flexible


_decoders: dict[type, dict[int, Callable[[bytes, int], Any]]] = {}
_encoders: dict[type, dict[int, Callable[[Any], list[Buffer]]]] = {}


def decoder(cls: type[_T], version: int) -> Callable[[bytes, int], _T]:
    """The function that decodes this version from (bytes, offset), compiled on first use."""
    try:
        return _decoders[cls][version]
    except KeyError:
        pass
    _check(cls, version)
    made: Callable[[bytes, int], _T] = compiled.compile_decoder(schema(cls), version)
    _decoders.setdefault(cls, {})[version] = made
    return made


def encoder(cls: type[_T], version: int) -> Callable[[_T], list[Buffer]]:
    """The function that encodes this version into buffers, compiled on first use."""
    try:
        return _encoders[cls][version]
    except KeyError:
        pass
    _check(cls, version)
    made: Callable[[_T], list[Buffer]] = compiled.compile_encoder(schema(cls), version)
    _encoders.setdefault(cls, {})[version] = made
    return made


def decode(cls: type[_T], version: int, data: Buffer, offset: int = 0) -> _T:
    """Read a message's body; bytes after it are ignored, as Kafka does (librdkafka sends some).

    Anything but `bytes` is copied once. Raises DecodeError when the bytes are wrong, whatever they are, and
    KafkaError(UNSUPPORTED_VERSION) when this version is not declared.
    """
    if type(data) is not bytes:
        data = bytes(data)
    if offset > len(data):
        raise DecodeError(f"{cls.__name__} v{version} would begin {offset - len(data)} bytes past the end")
    return decoder(cls, version)(data, offset)


def encode(value: object, version: int) -> list[Buffer]:
    """Write a message's body as a list of buffers, in order; never an empty list.

    Small pieces are joined; records above a kilobyte stay the caller's own buffers, uncopied.
    Raises KafkaError(UNSUPPORTED_VERSION) when this version is not declared.
    """
    try:
        encode_ = _encoders[type(value)][version]
    except KeyError:
        encode_ = encoder(type(value), version)
    return encode_(value)


def _check(cls: type, version: int) -> None:
    known = schema(cls).versions
    if version not in known:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"{cls.__name__} v{version} is not declared, only v{known}"
        )


__all__ = [
    "Buffer",
    "Records",
    "api_key",
    "decode",
    "decoder",
    "encode",
    "encoder",
    "field",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_flexible",
    "message",
    "schema",
    "struct",
    "versions",
]
