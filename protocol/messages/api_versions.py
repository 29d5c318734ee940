"""ApiVersions (18): which APIs and versions the broker serves; asked first by every client (KIP-35)."""

from protocol.message import field, int16, int32, int64, message, struct


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest:
    """Version 5 (KIP-1242) names the broker that the client believes to be talking to."""

    client_software_name: str = field("3+", default="")
    client_software_version: str = field("3+", default="")
    cluster_id: str | None = field("5+", nullable="5+", default=None)
    node_id: int32 = field("5+", default=-1)


@struct
class ApiVersion:
    api_key: int16
    min_version: int16
    max_version: int16


@struct
class SupportedFeatureKey:
    name: str
    min_version: int16
    max_version: int16


@struct
class FinalizedFeatureKey:
    name: str
    max_version_level: int16
    min_version_level: int16


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse:
    """The answer to an unsupported version is error 35 with a body of version 0.

    The response header is never flexible, whatever the version (KIP-511): see protocol.header.
    """

    error_code: int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: int32 = field("1+", default=0)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, default_factory=list)
    finalized_features_epoch: int64 = field("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, default_factory=list)
    zk_migration_ready: bool = field("3+", tag=3, default=False)
