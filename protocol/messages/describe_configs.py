"""DescribeConfigs (32): the configuration of topics and brokers; `kafka-topics --describe` needs it."""

from protocol.message import field, int8, int16, int32, message, struct

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
"""Resource types (org.apache.kafka.common.config.ConfigResource.Type)."""


@struct
class DescribeConfigsResource:
    """`configuration_keys` None asks for all of them."""

    resource_type: int8
    resource_name: str
    configuration_keys: list[str] | None = field(nullable="0+")


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource]
    include_synonyms: bool = field("1+", default=False)
    include_documentation: bool = field("3+", default=False)


@struct
class DescribeConfigsSynonym:
    name: str
    value: str | None = field(nullable="0+")
    source: int8


@struct
class DescribeConfigsResourceResult:
    """Sources and types are numbered as in KIP-226 and KIP-569; source 1 is the topic, 5 the default."""

    name: str
    value: str | None = field(nullable="0+")
    read_only: bool
    config_source: int8 = field("1+", default=-1)
    is_default: bool = field("0", default=False)
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field("1+", default_factory=list)
    config_type: int8 = field("3+", default=0)
    documentation: str | None = field("3+", nullable="0+", default=None)


@struct
class DescribeConfigsResult:
    error_code: int16 = 0
    error_message: str | None = field(nullable="0+", default=None)
    resource_type: int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult]


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult]
