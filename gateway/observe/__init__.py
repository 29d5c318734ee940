"""What an operator sees of a gateway: metrics, health, readiness."""

from gateway.observe.metrics import ApiFigures, Metrics

__all__ = ["ApiFigures", "Metrics"]
