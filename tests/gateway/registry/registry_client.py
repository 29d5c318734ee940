"""A registry over a new log with some schemas, and an HTTP client that asks it."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import ClientSession, web
from yarl import URL

from capture.log import Log
from gateway import registry
from gateway.observe import Metrics

T = TypeVar("T")

KEY = '{"type":"record","name":"Key","namespace":"shop.public.orders","fields":[{"name":"id","type":"int"}]}'
VALUE = json.dumps(
    {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.orders",
        "fields": [
            {
                "name": "before",
                "type": [
                    "null",
                    {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]},
                ],
                "default": None,
            },
            {"name": "after", "type": ["null", "Value"], "default": None},
        ],
        "connect.name": "shop.public.orders.Envelope",
    },
    separators=(",", ":"),
)
VALUE_2 = VALUE.replace('"connect.name"', '"connect.version":2,"connect.name"')


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    content_type: str
    text: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> tuple[int, int]:
        """HTTP status and error code; the body must be an error's, no more and no less."""
        body = self.json
        assert set(body) == {"error_code", "message"}
        assert self.content_type == "application/vnd.schemaregistry.v1+json"
        return self.status, body["error_code"]


class RegistryClient:
    """The service under test."""

    def __init__(self, data: Path) -> None:
        self.log = Log.open(data, create=True)
        self.metrics = Metrics()
        self.key_id = self.log.schemas.register("shop.public.orders-key", KEY)
        self.value_id = self.log.schemas.register("shop.public.orders-value", VALUE)
        self.value_2_id = self.log.schemas.register("shop.public.orders-value", VALUE_2)

    async def start(self) -> None:
        self._runner = web.AppRunner(registry.app(self.log, self.metrics), access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._session = ClientSession()

    async def close(self) -> None:
        await self._session.close()
        await self._runner.cleanup()
        self.log.close()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request; `path` as it goes over the wire, encoded."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        data = None if body is None else io.BytesIO(raw)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(
            method, URL(self.url + path, encoded=True), data=data, headers=named
        ) as response:
            return Answer(
                response.status, response.content_type, await response.text(), dict(response.headers)
            )

    async def get(self, path: str) -> Any:
        """The JSON of an answer that must be good."""
        answer = await self.ask("GET", path)
        assert answer.status == 200, answer
        assert answer.content_type == "application/vnd.schemaregistry.v1+json"
        return answer.json


def with_registry(data: Path, scenario: Callable[[RegistryClient], Awaitable[T]]) -> T:
    """Run a scenario against a registry of its own."""

    async def main() -> T:
        client = RegistryClient(data)
        await client.start()
        try:
            return await scenario(client)
        finally:
            await client.close()

    return asyncio.run(main())
