"""FindCoordinator (10): which broker coordinates a group; several keys at once from version 4 (KIP-699)."""

from protocol.message import field, int8, int16, int32, message, struct

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = field("0-3", default="")
    key_type: int8 = field("1+", default=GROUP_KEY_TYPE)
    coordinator_keys: list[str] = field("4+", default_factory=list)


@struct
class Coordinator:
    key: str
    node_id: int32
    host: str
    port: int32
    error_code: int16 = 0
    error_message: str | None = field(nullable="4+", default=None)


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """Up to version 3 one coordinator stands in the body, from version 4 on they stand in `coordinators`."""

    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = field("0-3", default=0)
    error_message: str | None = field("1-3", nullable="1-3", default=None)
    node_id: int32 = field("0-3", default=0)
    host: str = field("0-3", default="")
    port: int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", default_factory=list)
