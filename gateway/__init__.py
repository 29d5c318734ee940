"""The change log to clients: broker, groups, virtual topics, Schema Registry, operations."""
