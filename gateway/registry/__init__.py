"""The Confluent-compatible schema registry, read-only: ids and texts come from the log's catalog."""

from gateway.registry.app import app

__all__ = ["app"]
