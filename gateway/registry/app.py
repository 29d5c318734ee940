"""The schema registry's HTTP: paths, parameters, content types, and every error as a JSON body.

Served at the root of its URL, because Materialize and RisingWave drop the path of the URL they are given.
What a client says it accepts is ignored: the answer is always the registry's JSON, never 406.
"""

import json
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from importlib import metadata
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from capture.log import Log
from gateway.cluster_id import cluster_id
from gateway.observe import Metrics
from gateway.registry.errors import (
    STORE_ERROR,
    SUBJECT_LEVEL_COMPATIBILITY_NOT_CONFIGURED,
    SUBJECT_LEVEL_MODE_NOT_CONFIGURED,
    RegistryError,
    http_error,
    not_permitted,
)
from gateway.registry.reading import MAX_VERSION, Page, SchemaReading

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
COMPATIBILITY_LEVEL: Final = "NONE"
"""A table's change has already happened when its schema comes here, so nothing is ever refused for
compatibility."""
MODE: Final = "READONLY"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def app(log_: Log, metrics: Metrics | None = None) -> web.Application:
    """The registry over a log's schemas; with `metrics`, requests are counted by status."""
    http = RegistryHttp(log_)
    application = web.Application(
        middlewares=[_errors_as_json(metrics or Metrics())], client_max_size=MAX_BODY_BYTES
    )
    for path, methods in http.routes().items():
        for variant in {path, path.rstrip("/") + "/"}:
            resource = application.router.add_resource(variant)
            for method, handler in methods.items():
                resource.add_route(method, handler)
                if method == "GET":
                    resource.add_route("HEAD", handler)
            allowed = ",".join(sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}))
            resource.add_route("OPTIONS", _options(allowed))
    return application


class RegistryHttp:
    """The handlers, by path."""

    def __init__(self, log_: Log) -> None:
        self._log = log_
        self._read = SchemaReading(log_.schemas)

    def routes(self) -> dict[str, dict[str, Handler]]:
        """Method and handler of every path."""
        refuse = self._refuse
        config: dict[str, Handler] = {"GET": self._global_config, "PUT": refuse, "DELETE": refuse}
        mode: dict[str, Handler] = {"GET": self._global_mode, "PUT": refuse, "DELETE": refuse}
        versions = "/subjects/{subject}/versions"
        compatibility = "/compatibility/subjects/{subject}/versions"
        return {
            "/": {"GET": self._root, "POST": self._root},
            "/subjects": {"GET": self._subjects},
            "/subjects/{subject}": {"POST": self._lookup, "DELETE": refuse},
            versions: {"GET": self._versions, "POST": self._register},
            f"{versions}/{{version}}": {"GET": self._version, "DELETE": refuse},
            f"{versions}/{{version}}/schema": {"GET": self._version_text},
            f"{versions}/{{version}}/referencedby": {"GET": self._referenced_by},
            "/schemas": {"GET": self._schemas},
            "/schemas/types": {"GET": self._types},
            "/schemas/ids/{id}": {"GET": self._schema},
            "/schemas/ids/{id}/schema": {"GET": self._schema_text},
            "/schemas/ids/{id}/subjects": {"GET": self._schema_subjects},
            "/schemas/ids/{id}/versions": {"GET": self._schema_versions},
            compatibility: {"POST": self._compatible},
            f"{compatibility}/{{version}}": {"POST": self._compatible},
            "/config": config,
            "/config/{subject}": {**config, "GET": self._subject_config},
            "/mode": mode,
            "/mode/{subject}": {**mode, "GET": self._subject_mode},
            "/contexts": {"GET": self._contexts},
            "/v1/metadata/id": {"GET": self._cluster},
            "/v1/metadata/version": {"GET": self._software},
        }

    async def _root(self, request: web.Request) -> web.StreamResponse:
        return _json({})

    async def _subjects(self, request: web.Request) -> web.StreamResponse:
        found = self._read.subjects(
            request.query.get("subjectPrefix", ""),
            deleted=_flag(request, "deleted"),
            deleted_only=_flag(request, "deletedOnly"),
            page=_page(request),
        )
        return _json(found)

    async def _versions(self, request: web.Request) -> web.StreamResponse:
        deleted = _flag(request, "deleted") or _flag(request, "deletedOnly")
        return _json(self._read.versions(request.match_info["subject"], deleted=deleted, page=_page(request)))

    async def _version(self, request: web.Request) -> web.StreamResponse:
        return _json(self._read.version(request.match_info["subject"], request.match_info["version"]))

    async def _version_text(self, request: web.Request) -> web.StreamResponse:
        return _text(self._read.version_text(request.match_info["subject"], request.match_info["version"]))

    async def _referenced_by(self, request: web.Request) -> web.StreamResponse:
        return _json(self._read.referenced_by(request.match_info["subject"], request.match_info["version"]))

    async def _lookup(self, request: web.Request) -> web.StreamResponse:
        return _json(self._read.lookup(request.match_info["subject"], await _body(request)))

    async def _register(self, request: web.Request) -> web.StreamResponse:
        return _json(self._read.register(request.match_info["subject"], await _body(request)))

    async def _compatible(self, request: web.Request) -> web.StreamResponse:
        return _json(
            self._read.compatible(
                request.match_info["subject"],
                request.match_info.get("version"),
                await _body(request),
                verbose=_flag(request, "verbose"),
            )
        )

    async def _schemas(self, request: web.Request) -> web.StreamResponse:
        prefix = request.query.get("subjectPrefix", "")
        latest_only = _flag(request, "latestOnly")
        return _json(self._read.schemas(prefix, latest_only=latest_only, page=_page(request)))

    async def _types(self, request: web.Request) -> web.StreamResponse:
        return _json(["AVRO"])

    async def _schema(self, request: web.Request) -> web.StreamResponse:
        return _json(self._read.schema(_schema_id(request)))

    async def _schema_text(self, request: web.Request) -> web.StreamResponse:
        return _text(self._read.schema_text(_schema_id(request)))

    async def _schema_subjects(self, request: web.Request) -> web.StreamResponse:
        return _json(self._read.schema_subjects(_schema_id(request), _page(request)))

    async def _schema_versions(self, request: web.Request) -> web.StreamResponse:
        return _json(self._read.schema_versions(_schema_id(request), _page(request)))

    async def _global_config(self, request: web.Request) -> web.StreamResponse:
        return _json({"compatibilityLevel": COMPATIBILITY_LEVEL})

    async def _subject_config(self, request: web.Request) -> web.StreamResponse:
        if _flag(request, "defaultToGlobal"):
            return _json({"compatibilityLevel": COMPATIBILITY_LEVEL})
        subject = request.match_info["subject"]
        raise RegistryError(
            SUBJECT_LEVEL_COMPATIBILITY_NOT_CONFIGURED,
            f"Subject '{subject}' does not have subject-level compatibility configured",
        )

    async def _global_mode(self, request: web.Request) -> web.StreamResponse:
        return _json({"mode": MODE})

    async def _subject_mode(self, request: web.Request) -> web.StreamResponse:
        if _flag(request, "defaultToGlobal"):
            return _json({"mode": MODE})
        subject = request.match_info["subject"]
        raise RegistryError(
            SUBJECT_LEVEL_MODE_NOT_CONFIGURED,
            f"Subject '{subject}' does not have subject-level mode configured",
        )

    async def _contexts(self, request: web.Request) -> web.StreamResponse:
        return _json(["."])

    async def _cluster(self, request: web.Request) -> web.StreamResponse:
        clusters = {
            "kafka-cluster": cluster_id(self._log.data),
            "schema-registry-cluster": "schema-registry",
        }
        return _json({"scope": {"path": [], "clusters": clusters}, "id": ""})

    async def _software(self, request: web.Request) -> web.StreamResponse:
        return _json({"version": _version(), "commitId": ""})

    async def _refuse(self, request: web.Request) -> web.StreamResponse:
        raise not_permitted(f"{request.method} {request.path}")


def _errors_as_json(metrics: Metrics) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except RegistryError as error:
            response = _error(error)
        except web.HTTPException as error:
            response = _error(http_error(error.status))
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
        except sqlite3.Error as error:
            log.error("schema registry cannot read the catalog", extra={"problem": str(error)})
            response = _error(RegistryError(STORE_ERROR, "Error in the backend data store"))
        except Exception:  # one of the outermost loops: a bug ends one request only
            log.exception("request to the schema registry failed", extra={"path": request.path})
            response = _error(http_error(500))
        metrics.registry_requests[response.status] = metrics.registry_requests.get(response.status, 0) + 1
        return response

    return middleware


def _options(allowed: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"Allow": allowed})

    return handler


def _json(value: object) -> web.Response:
    return _text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _text(text: str) -> web.Response:
    return web.Response(body=text.encode(), content_type=CONTENT_TYPE)


def _error(error: RegistryError) -> web.Response:
    response = _json(error.body)
    response.set_status(error.status)
    return response


async def _body(request: web.Request) -> object:
    """The JSON that a request brought, whatever it calls its type."""
    try:
        return json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"the body is not JSON: {error}") from error


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() == "true"


def _page(request: web.Request) -> Page:
    return Page(offset=_integer(request, "offset", 0), limit=_integer(request, "limit", -1))


def _integer(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError as error:
        raise RegistryError(400, f"{name} must be a number") from error
    if number < 0 and name == "offset":
        raise RegistryError(400, "offset must not be negative")
    return number


def _schema_id(request: web.Request) -> int:
    """A schema id of the path; what is no int32 names no resource (404 of HTTP, as in Confluent's
    registry)."""
    text = request.match_info["id"]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(MAX_VERSION)):
        raise http_error(404)
    number = int(text)
    if not -MAX_VERSION - 1 <= number <= MAX_VERSION:
        raise http_error(404)
    return number


def _version() -> str:
    try:
        return metadata.version("tidegate")
    except metadata.PackageNotFoundError:
        return "0"
