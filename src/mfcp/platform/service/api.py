"""The decision service: predict, match and explain over HTTP. What comes in is not trusted.

The only importer of fastapi and prometheus_client, which take a second to import.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi_offline import FastAPIOffline  # the pages of /docs without scripts from elsewhere
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mfcp.border.regular import printable
from mfcp.errors import MfcpError
from mfcp.platform.service.protocol import Answer, Answering, ServeSettings

LOG = logging.getLogger("mfcp.serve")
_OPEN = ("/health",)  # answers without a token, to whom asks whether it lives
NAMES = ("predict", "match", "explain")
_BODIES = 2  # of the largest size in memory at once
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r":\d+$")
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
_BUCKETS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0)


class Meters:
    """What /metrics tells."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        how: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("mfcp_requests", "Requests by path and status.", ["path", "status"], **how)
        self.seconds = Histogram("mfcp_request_seconds", "Time to answer.", ["path"], buckets=_BUCKETS, **how)
        self.matched = Counter("mfcp_matched_tasks", "Tasks that were given a cluster.", **how)
        self.champion = Gauge("mfcp_champion", "1 for the release that decides.", ["version"], **how)


class Border:
    """Name, size, host, token and meters of every request, before anything reads it.

    A request has an id, its client's `X-Request-ID` or one of ours, which its answer and the service's log have.
    """

    def __init__(
        self, app: ASGIApp, *, token: str | None, hosts: frozenset[str], settings: ServeSettings, meters: Meters,
        paths: set[str],
    ) -> None:  # fmt: skip
        self.app, self.token, self.hosts, self.meters, self.paths = app, token, hosts, meters, paths
        self.most, self.body_s = round(settings.body_mib * 2**20), settings.body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status, read, due = time.perf_counter(), 500, 0, None
        path = scope["path"] if scope["path"] in self.paths else "other"
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        name = given if _NAME.fullmatch(given) else uuid4().hex
        scope["state"] = {**scope.get("state", {}), "request_id": name}

        async def counted() -> Message:
            nonlocal read, due
            clock = asyncio.get_running_loop()
            due = due or clock.time() + self.body_s
            try:
                async with asyncio.timeout_at(due):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request has not arrived within {self.body_s:g} s") from None
            read += len(message.get("body", b""))
            if read > self.most:
                raise HTTPException(413, f"the request is above {self.most} bytes; send fewer tasks or graphs at once")
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", name.encode())]}
            await send(message)

        try:
            refused = self._refused(scope, headers)
            await (refused or self.app)(scope, counted, noted)
        finally:
            seconds = time.perf_counter() - begin
            self.meters.requests.labels(path, str(status)).inc()
            self.meters.seconds.labels(path).observe(seconds)
            LOG.info("%s %s %s %s %.0f ms", name, scope["method"], path, status, 1e3 * seconds)

    def _refused(self, scope: Scope, headers: dict[bytes, bytes]) -> JSONResponse | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if "*" not in self.hosts and _HOST.sub("", host).strip("[]").lower() not in self.hosts:
            return _error(421, f"host '{printable(host[:80])}' is not served here; see --allow-host")
        if self.token is not None and scope["path"] not in _OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self.token.encode()):
                challenge = {"WWW-Authenticate": "Bearer"}
                return _error(
                    401, "expected the header 'Authorization: Bearer TOKEN' with this service's token", challenge
                )
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.most:
            return _error(413, f"the request has {int(length)} bytes; expected at most {self.most}")
        return None


def create_app(
    desk: Answering, settings: ServeSettings, *, token: str | None = None, hosts: frozenset[str] = LOOPBACK
) -> FastAPI:
    """The service.

    Args:
        desk: reads and answers, in this process or another.
        settings: limits.
        token: that every request but /health must carry; None for none.
        hosts: names under which it answers, `*` for any: a page of another site reaches a service on loopback through
            a name of its own.
    """
    meters = Meters()
    line = _Line(desk, settings, meters)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(_watch(desk, meters, app))
        yield
        watching.cancel()
        line.close()

    app = FastAPIOffline(title="mfcp", lifespan=life)
    for name in NAMES:
        app.add_api_route(f"/v1/{name}", line.route(name), methods=["POST"])
    app.add_api_route("/v1/skypilot", line.route("skypilot"), methods=["POST"])  # a form of SkyPilot's, not of ours

    @app.get("/health")
    async def health() -> Response:
        state = desk.state
        return JSONResponse(state, 200 if state["status"] == "ready" else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(meters.registry), media_type=CONTENT_TYPE_LATEST)

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            raise MfcpError("starting: the document is being made; come again")
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    _answer_errors(app)
    paths = {route.path for route in app.routes if hasattr(route, "path")}
    app.add_middleware(Border, token=token, hosts=hosts, settings=settings, meters=meters, paths=paths)
    return app


def document(models: Sequence[type[BaseModel]], *, token: bool) -> dict[str, Any]:
    """The OpenAPI document of the service.

    Args:
        models: of the requests, in the order of `NAMES`.
        token: whether clients need one.
    """
    from mfcp.platform.service.answers import Answers
    from mfcp.platform.service.contract import ErrorAnswer, NotReady, Ready, declared

    async def nothing() -> None:
        """Only its description counts."""

    app = FastAPI(title="mfcp", description="Predict and match deep-learning tasks to clusters.")
    for name, model in zip(NAMES, models, strict=True):
        content = {"application/json": {"schema": {"$ref": _SCHEMA.format(model=model.__name__)}}}
        app.add_api_route(
            f"/v1/{name}", nothing, methods=["POST"], summary=getattr(Answers, name).__doc__, name=name,
            description="", responses=declared(name, token=token),
            openapi_extra={"requestBody": {"required": True, "content": content}},
        )  # fmt: skip
    health: dict[int | str, dict[str, Any]] = {
        200: {"model": Ready}, 503: {"model": NotReady, "description": "No release decides yet."}
    }  # fmt: skip
    app.add_api_route(
        "/health", nothing, name="health", summary="Whether it can decide, and with which release", responses=health,
        description="",
    )  # fmt: skip
    prometheus: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
    if token:
        prometheus[401] = {"model": ErrorAnswer, "description": "The token is missing or wrong."}
    app.add_api_route(
        "/metrics", nothing, name="metrics", summary="For Prometheus", responses=prometheus, description="",
        response_class=PlainTextResponse,
    )  # fmt: skip
    found: dict[str, Any] = app.openapi()
    schemas = found["components"]["schemas"]
    for model in models:
        own = model.model_json_schema(ref_template=_SCHEMA)
        schemas.update(own.pop("$defs", {}))
        schemas[model.__name__] = own
    return found


_SCHEMA = "#/components/schemas/{model}"


class _Line:
    """Requests that wait to be answered; further ones are told to come later, unread.

    Of their bodies only so many bytes are in memory at once, those of the others stay with their clients until it is
    their turn; and of large ones one is computed at a time, since to read one takes twenty times its size.
    """

    def __init__(self, desk: Answering, settings: ServeSettings, meters: Meters) -> None:
        self.desk, self.meters, self.most, self.waiting = desk, meters, settings.waiting, 0
        self.largest = round(settings.body_mib * 2**20)
        self.received, self.computed = _Bytes(_BODIES * self.largest), _Bytes(self.largest)
        self.threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="answer")

    def close(self) -> None:
        """Drop who still waits."""
        self.threads.shutdown(wait=False, cancel_futures=True)

    def route(self, name: str) -> Any:
        """The function that FastAPI calls with a request."""

        async def answer(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" and not kind.endswith("+json"):
                raise HTTPException(415, "expected the header 'Content-Type: application/json'")
            if self.waiting >= self.most:
                raise HTTPException(
                    503, f"{self.waiting} requests wait already; come again later", {"Retry-After": "1"}
                )
            self.waiting += 1
            try:
                told = await self._answer(name, request)
            except ClientDisconnect:  # nobody is there to be told
                return Response(status_code=499)
            finally:
                self.waiting -= 1
            self.meters.matched.inc(told.tasks)
            return Response(told.content, told.status, media_type="application/json")

        return answer

    async def _answer(self, name: str, request: Request) -> Answer:
        said = request.headers.get("content-length", "")
        async with self.received.held(int(said) if said.isdigit() else self.largest):
            body = await request.body()
            async with self.computed.held(len(body)):
                run = asyncio.get_running_loop().run_in_executor
                return await run(self.threads, self.desk.answer, name, body, request.state.request_id)


class _Bytes:
    """So many bytes, given to who asks first."""

    def __init__(self, most: int) -> None:
        self.most = self.free = most
        self.turn, self.back = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def held(self, size: int) -> AsyncIterator[None]:
        """Some of them, all where more are asked for."""
        size = min(size, self.most)
        async with self.turn:
            while self.free < size:
                self.back.clear()
                await self.back.wait()
            self.free -= size
        try:
            yield
        finally:
            self.free += size
            self.back.set()


def _answer_errors(app: FastAPI) -> None:
    """Have every error answered as JSON with a status that says whose error it is."""

    @app.exception_handler(MfcpError)
    async def ended(_: Request, error: MfcpError) -> JSONResponse:
        return _error(503, str(error), {"Retry-After": "1"})

    @app.exception_handler(StarletteHTTPException)
    async def other(_: Request, error: StarletteHTTPException) -> JSONResponse:
        return _error(error.status_code, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        name = request.scope.get("state", {}).get("request_id", "")
        LOG.error("%s %s", name, printable(request.url.path), exc_info=error)
        return _error(500, f"internal error; the service's log has it under {name}")


async def _watch(desk: Answering, meters: Meters, app: FastAPI) -> None:
    """Look once a second whether another release decides, and have the desk's document as soon as it can be had."""
    shown = None
    while True:
        await asyncio.to_thread(desk.refresh)
        version = desk.state.get("version", "")
        if version != shown:
            meters.champion.clear()
            meters.champion.labels(version).set(1)
            shown = version
        if not app.openapi_schema and version:
            with suppress(MfcpError):
                app.openapi_schema = await asyncio.to_thread(desk.document)
        await asyncio.sleep(1.0 if shown else 0.1)


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)
