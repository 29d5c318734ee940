"""What an operator sees of a gateway: metrics, health, readiness."""

from typing import TYPE_CHECKING

from gateway.observe.metrics import ApiFigures, Metrics

if TYPE_CHECKING:
    from aiohttp import web

    from gateway.observe.admin import Observed

__all__ = ["ApiFigures", "Metrics", "app"]


def app(gateway: "Observed") -> "web.Application":
    """The admin port's pages over a gateway. Loads the HTTP server, which the serving path does not need."""
    from gateway.observe import admin

    return admin.app(gateway)
