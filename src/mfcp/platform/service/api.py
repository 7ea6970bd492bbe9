"""The decision service: predict, match and explain over HTTP. What comes in is not trusted.

The only importer of fastapi and prometheus_client, which take a second to import.
"""

from __future__ import annotations

import asyncio
import gc
import hmac
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi_offline import FastAPIOffline  # the pages of /docs without scripts from elsewhere
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mfcp.border.regular import printable
from mfcp.errors import MfcpError
from mfcp.platform.service.answers import Answers, Asked, asked_models, status_of
from mfcp.platform.service.champion import Champion
from mfcp.platform.service.contract import ErrorAnswer, NotReady, Ready, declared

LOG = logging.getLogger("mfcp.serve")
_OPEN = ("/health",)  # answers without a token, to whom asks whether it lives
_SHOWN = 10  # problems of a request
_BODIES = 4  # in memory at once, for each thread
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r":\d+$")
LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
_BUCKETS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0)


class ServeSettings(BaseModel):
    """Limits of the service."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(1000, ge=1, description="tasks of a request at most")
    operators: int = Field(200_000, ge=0, description="rows of nodes, and of edges, of a request at most")
    body_mib: float = Field(32.0, gt=0, description="size of a request at most")
    threads: int = Field(2, ge=1, description="requests computed at once")
    waiting: int = Field(64, ge=1, description="requests that may wait or be computed; others are told to come later")
    body_s: float = Field(10.0, gt=0, description="seconds in which a request must have arrived")
    time_limit: float = Field(2.0, gt=0, description="seconds for the bound, or an engine")
    graphs: int = Field(10_000, ge=1, description="operator graphs whose encoding is remembered")


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
    champion: Champion, settings: ServeSettings, *, token: str | None = None, hosts: frozenset[str] = LOOPBACK
) -> FastAPI:
    """The service.

    Args:
        champion: the release that decides.
        settings: limits.
        token: that every request but /health must carry; None for none.
        hosts: names under which it answers, `*` for any: a page of another site reaches a service on loopback through
            a name of its own.
    """
    meters = Meters()
    answers = Answers(champion, time_limit=settings.time_limit)
    line = _Line(settings)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(_watch(champion, meters))
        yield
        watching.cancel()
        line.close()

    app = FastAPIOffline(title="mfcp", description="Predict and match deep-learning tasks to clusters.", lifespan=life)
    works = (answers.predict, answers.match, answers.explain)
    models = asked_models(settings.tasks, settings.operators)
    for model, work, meter in zip(models, works, (None, meters.matched, None), strict=True):
        name = work.__name__
        app.add_api_route(
            f"/v1/{name}", line.route(model, work, meter), methods=["POST"], summary=work.__doc__, name=name,
            responses=declared(name, token=token is not None), openapi_extra=_request_body(model),
        )  # fmt: skip
    _declare(app, models)

    @app.get(
        "/health",
        summary="Whether it can decide, and with which release",
        responses={200: {"model": Ready}, 503: {"model": NotReady, "description": "No release decides yet."}},
    )
    async def health() -> Response:
        state = champion.state
        return JSONResponse(state, 200 if state["status"] == "ready" else 503)

    prometheus: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
    if token is not None:
        prometheus[401] = {"model": ErrorAnswer, "description": "The token is missing or wrong."}

    @app.get("/metrics", summary="For Prometheus", response_class=PlainTextResponse, responses=prometheus)
    async def metrics() -> Response:
        return Response(generate_latest(meters.registry), media_type=CONTENT_TYPE_LATEST)

    _answer_errors(app)
    paths = {route.path for route in app.routes if hasattr(route, "path")}
    app.add_middleware(Border, token=token, hosts=hosts, settings=settings, meters=meters, paths=paths)
    return app


_SCHEMA = "#/components/schemas/{model}"


def _request_body(model: type[Asked]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _SCHEMA.format(model=model.__name__)}}}
    return {"requestBody": {"required": True, "content": content}}


def _declare(app: FastAPI, models: Sequence[type[Asked]]) -> None:
    """Have the OpenAPI document tell the requests, which FastAPI does not read itself."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            schemas = plain()["components"]["schemas"]
            for model in models:
                own = model.model_json_schema(ref_template=_SCHEMA)
                schemas.update(own.pop("$defs", {}))
                schemas[model.__name__] = own
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


class _Line:
    """Requests that wait for a thread to read and answer them; further ones are told to come later, unread.

    Only some have their bodies in memory at once; those of the others stay with their clients until it is their turn.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.most, self.waiting = settings.waiting, 0
        self.bodies = asyncio.Semaphore(_BODIES * settings.threads)
        self.threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="answer")

    def close(self) -> None:
        """Drop who still waits."""
        self.threads.shutdown(wait=False, cancel_futures=True)

    def route(self, model: type[Asked], work: Callable[[Any], bytes], meter: Counter | None) -> Any:
        """The function that FastAPI calls with a request of this model; `meter` counts its tasks."""

        def answered(body: bytes) -> tuple[bytes, int]:
            asked = model.model_validate_json(body)
            return work(asked), len(asked.tasks)

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
                async with self.bodies:
                    run = asyncio.get_running_loop().run_in_executor
                    content, tasks = await run(self.threads, answered, await request.body())
            except ClientDisconnect:  # nobody is there to be told
                return Response(status_code=499)
            finally:
                self.waiting -= 1
            if meter is not None:
                meter.inc(tasks)
            return Response(content, media_type="application/json")

        return answer


def _answer_errors(app: FastAPI) -> None:
    """Have every error answered as JSON with a status that says whose error it is."""

    @app.exception_handler(ValidationError)
    async def wrong(_: Request, error: ValidationError) -> JSONResponse:
        problems = error.errors(include_url=False, include_context=False)
        if problems[0]["type"] == "json_invalid":
            return _error(400, f"body: {problems[0]['msg']}")
        fields = [
            {
                "field": ".".join(map(str, p["loc"])) or "body",
                "expected": p["msg"],
                "got": repr(p.get("input"))[:80],
            }
            for p in problems[:_SHOWN]
        ]
        first = f"{fields[0]['field']}: {fields[0]['expected']}, got {fields[0]['got']}"
        return JSONResponse({"error": first, "problems": len(problems), "fields": fields}, 422)

    @app.exception_handler(MfcpError)
    async def refused(_: Request, error: MfcpError) -> JSONResponse:
        return _error(status_of(error), str(error))

    @app.exception_handler(StarletteHTTPException)
    async def other(_: Request, error: StarletteHTTPException) -> JSONResponse:
        return _error(error.status_code, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        name = request.scope.get("state", {}).get("request_id", "")
        LOG.error("%s %s", name, printable(request.url.path), exc_info=error)
        return _error(500, f"internal error; the service's log has it under {name}")


async def _watch(champion: Champion, meters: Meters) -> None:
    """Look once a second whether another release decides; loading one disturbs nobody."""
    shown = None
    while True:
        await asyncio.to_thread(champion.refresh)
        if champion.version != shown:
            meters.champion.clear()
            meters.champion.labels(champion.version).set(1)
            shown = champion.version
            _freeze()
        await asyncio.sleep(1.0)


def _freeze() -> None:
    """Keep the garbage collector off what stays, which is torch, pandas and the release, so that it pauses no request.

    It looks at everything once more before, and so frees what the last release left behind.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)
