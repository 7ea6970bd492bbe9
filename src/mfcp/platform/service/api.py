"""The decision service: predict, match and explain over HTTP. What comes in is not trusted.

The only importer of fastapi and prometheus_client, which take a second to import.
"""

from __future__ import annotations

import asyncio
import gc
import hmac
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi_offline import FastAPIOffline  # the pages of /docs without scripts from elsewhere
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mfcp.errors import MfcpError
from mfcp.platform.service.answers import Answers, Asked, asked_models, status_of
from mfcp.platform.service.champion import Champion
from mfcp.platform.service.contract import ErrorAnswer, NotReady, Ready, declared

LOG = logging.getLogger("mfcp.serve")
_OPEN = ("/health",)  # answers without a token, to whom asks whether it lives
_SHOWN = 10  # problems of a request
_BUCKETS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0)


class ServeSettings(BaseModel):
    """Limits of the service."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(1000, ge=1, description="tasks of a request at most")
    operators: int = Field(200_000, ge=0, description="rows of nodes, and of edges, of a request at most")
    body_mib: float = Field(32.0, gt=0, description="size of a request at most")
    threads: int = Field(2, ge=1, description="requests computed at once")
    waiting: int = Field(64, ge=1, description="requests that may wait or be computed; others are told to come later")
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
    """Size, token and meters of every request, before anything reads it."""

    def __init__(self, app: ASGIApp, *, token: str | None, most: int, meters: Meters, paths: set[str]) -> None:
        self.app, self.token, self.most, self.meters, self.paths = app, token, most, meters, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status, read = time.perf_counter(), 500, 0
        path = scope["path"] if scope["path"] in self.paths else "other"

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most:
                raise HTTPException(413, f"the request is above {self.most} bytes; send fewer tasks or graphs at once")
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            refused = self._refused(scope)
            await (refused or self.app)(scope, counted, noted)
        finally:
            self.meters.requests.labels(path, str(status)).inc()
            self.meters.seconds.labels(path).observe(time.perf_counter() - begin)

    def _refused(self, scope: Scope) -> JSONResponse | None:
        headers = dict(scope["headers"])
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


def create_app(champion: Champion, settings: ServeSettings, *, token: str | None = None) -> FastAPI:
    """The service.

    Args:
        champion: the release that decides.
        settings: limits.
        token: that every request but /health must carry; None for none.
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
    for model, work, meter in zip(
        asked_models(settings.tasks, settings.operators), works, (None, meters.matched, None), strict=True
    ):
        route = line.route(model, work, meter)
        name = work.__name__
        responses = declared(name, token=token is not None)
        app.add_api_route(f"/v1/{name}", route, methods=["POST"], summary=work.__doc__, name=name, responses=responses)

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
    app.add_middleware(Border, token=token, most=round(settings.body_mib * 2**20), meters=meters, paths=paths)
    return app


class _Line:
    """Requests that wait for a thread to compute their answer; further ones are told to come later."""

    def __init__(self, settings: ServeSettings) -> None:
        self.most, self.waiting = settings.waiting, 0
        self.threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="answer")

    def close(self) -> None:
        """Drop who still waits."""
        self.threads.shutdown(wait=False, cancel_futures=True)

    def route(self, model: type[Asked], work: Callable[[Any], bytes], meter: Counter | None) -> Any:
        """The function that FastAPI calls with a request of this model; `meter` counts its tasks."""

        async def answer(asked: Any) -> Response:
            if self.waiting >= self.most:
                raise HTTPException(
                    503, f"{self.waiting} requests wait already; come again later", {"Retry-After": "1"}
                )
            self.waiting += 1
            try:
                content = await asyncio.get_running_loop().run_in_executor(self.threads, work, asked)
            finally:
                self.waiting -= 1
            if meter is not None:
                meter.inc(len(asked.tasks))
            return Response(content, media_type="application/json")

        answer.__annotations__["asked"] = model  # made at run time, from the log schema and the limits
        return answer


def _answer_errors(app: FastAPI) -> None:
    """Have every error answered as JSON with a status that says whose error it is."""

    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, error: RequestValidationError) -> JSONResponse:
        problems = error.errors()
        fields = [
            {
                "field": ".".join(map(str, p["loc"][1:])) or "body",
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
        LOG.error("%s", request.url.path, exc_info=error)
        return _error(500, "internal error; the service's log has it")


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
