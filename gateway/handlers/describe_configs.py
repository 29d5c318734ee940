"""DescribeConfigs: the settings in force of topics and of the broker. All of them are read-only here."""

from typing import Final

from gateway.context import Context
from gateway.topics.configs import Config, broker_configs, topic_configs
from gateway.topics.lookup import topic_by_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_WITHOUT_SETTINGS: Final = (8, 16, 32)
"""Broker loggers, client metrics (KIP-714) and groups (KIP-848) have no settings here."""


def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """Answer each resource for itself."""
    return DescribeConfigsResponse(
        results=[_resource(asked, request, context) for asked in request.resources]
    )


def _resource(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=asked.resource_type, resource_name=asked.resource_name, configs=[]
    )
    try:
        configs = _configs(asked, context)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message
        return result
    wanted = asked.configuration_keys
    result.configs = [
        _entry(config, request) for config in configs if wanted is None or config.name in wanted
    ]
    return result


def _configs(asked: DescribeConfigsResource, context: Context) -> list[Config]:
    if asked.resource_type == TOPIC_RESOURCE:
        return topic_configs(topic_by_name(context.reader, asked.resource_name))
    if asked.resource_type == BROKER_RESOURCE:
        if not asked.resource_name:
            # The defaults that an administrator may set for all brokers (KIP-226): there are none.
            return []
        if asked.resource_name != str(context.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The only broker is {context.node_id}, not {asked.resource_name!r}.",
            )
        return broker_configs(context.settings)
    if asked.resource_type in _WITHOUT_SETTINGS:
        return []
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"There is no resource type {asked.resource_type}.")


def _entry(config: Config, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    entry = DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=True,
        config_source=config.source,
        config_type=config.kind,
    )
    if request.include_synonyms:
        entry.synonyms = [DescribeConfigsSynonym(name=config.name, value=config.value, source=config.source)]
    if request.include_documentation:
        entry.documentation = config.documentation
    return entry
