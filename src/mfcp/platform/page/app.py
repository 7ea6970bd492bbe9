"""The page over HTTP, on loopback: what is looked at, and with a token which release decides.

Pages are whole without a script; one small script asks for the plan again while a control is moved. Nothing comes from
another host, and a page of another host can neither read (the Host header is checked) nor promote (the token is asked).
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mfcp.errors import MfcpError, SettingsError, UnknownNameError
from mfcp.platform.page import words
from mfcp.platform.page.board import Board, Wish
from mfcp.platform.page.charts import draw
from mfcp.platform.service.answers import status_of

LOG = logging.getLogger("mfcp.ui")
HOSTS = ["127.0.0.1", "localhost"]
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_FORM_BYTES = 4096
_ROWS = 200  # of a table of tasks


class Headers:
    """What every answer carries."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add them."""

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            await send(message)

        await self.app(scope, receive, marked)


class Pages:
    """One method a page; each runs in a thread of its own.

    Args:
        board: what is shown.
        token: that a promotion must name; None forbids promotions.
    """

    def __init__(self, board: Board, token: str | None) -> None:
        self.board, self.token = board, token
        self.environment = Environment(
            loader=PackageLoader("mfcp.platform.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        told = {name: getattr(words, name) for name in ("seconds", "share", "when", "count", "change", "run")}
        self.environment.globals.update(told, platform=board.store is not None, most=_ROWS, token=token is not None)

    def routes(self) -> list[Any]:
        """Where they are."""
        here = Path(__file__).parent / "static"
        paths: dict[str, Callable[[Request], Response]] = {
            "/": self.overview, "/what-if": self.what_if, "/what-if/plan": self.plan, "/what-if/task": self.task,
            "/rounds": self.rounds, "/rounds/{number:int}": self.round, "/rounds/{number:int}/task": self.task_then,
            "/clusters": self.clusters, "/releases": self.releases,
        }  # fmt: skip
        return [
            *(Route(path, page, methods=["GET"]) for path, page in paths.items()),
            Route("/releases", self.promote, methods=["POST"]),
            Mount("/static", StaticFiles(directory=here)),
        ]

    def overview(self, request: Request) -> Response:
        """What the platform did last, and what waits."""
        board, more = self.board, dict[str, Any]()
        board.refresh()
        if board.store is not None:
            rounds = board.store.rounds(1)
            more = {"counts": board.store.counts(), "row": None, "clusters": board.clusters()}
            if len(rounds):
                more |= self._round(int(rounds["round_id"].iloc[0]))
        summary = board.champion.release.summary() if board.champion.version else []
        state, sources = board.champion.state, board.sources()
        return self._page("overview", request, state=state, sources=sources, summary=summary, **more)

    def rounds(self, request: Request) -> Response:
        """The newest rounds."""
        rows = [] if self.board.store is None else self.board.store.rounds(50).to_dict("records")
        return self._page("rounds", request, rows=rows)

    def round(self, request: Request) -> Response:
        """One round's plan."""
        return self._page("round", request, **self._round(request.path_params["number"]))

    def _round(self, number: int) -> dict[str, Any]:
        row, planned = self.board.round(number)
        lanes = self.board.champion.release.cluster_id if self.board.champion.version else ()
        seconds = planned["seconds"].to_numpy(np.float64)
        names = ("mean_reliability", "gamma", "lower_bound")
        known = {name: None if row[name] != row[name] else row[name] for name in names}
        tasks, clusters, waits = list(planned["task_id"]), list(planned["cluster_id"]), row["data"].get("backlog")
        chart = draw(lanes, tasks, clusters, seconds, bound=known["lower_bound"], backlog=waits)
        told = words.plan(row["status"], row["makespan"], row["gap"], known["mean_reliability"], known["gamma"])
        measured = self.board.measured(planned)
        return {
            "row": row,
            "chart": chart,
            "told": told,
            "assignments": planned.to_dict("records"),
            "measured": measured,
            "attempts": self.board.attempts(list(planned["task_id"][:_ROWS])),
        }

    def what_if(self, request: Request) -> Response:
        """Controls, and the plan under them."""
        sources = self.board.sources()
        if not sources:
            return self._page("nothing", request)
        wish = self._wish(request.query_params, next(iter(sources)))
        tried, release, offline = self._tried(request, wish), self.board.release, self.board.champion.offline
        return self._page("what_if", request, sources=sources, wish=wish, release=release, offline=offline, **tried)

    def plan(self, request: Request) -> Response:
        """The part of `what_if` that changes with its controls."""
        wish = self._wish(request.query_params, next(iter(self.board.sources()), ""))
        return self._page("plan", request, **self._tried(request, wish))

    def _tried(self, request: Request, wish: Wish) -> dict[str, Any]:
        """The trial, or why there is none: a wish out of range is a state of the page, not an error of its address."""
        query = _query(request)
        try:
            trial = self.board.try_out(wish)
        except UnknownNameError:
            raise
        except MfcpError as error:
            return {"trial": None, "problem": str(error), "told": None, "query": query}
        return {"trial": trial, "problem": "", "told": _told(trial.then), "query": query}

    def task(self, request: Request) -> Response:
        """Why a task goes where it goes under the wish."""
        wish = self._wish(request.query_params, next(iter(self.board.sources()), ""))
        decision = self.board.decide(wish)
        told = self.board.explained(decision, request.query_params.get("task", ""))
        moved = decision.movers()[decision.task_id.index(told.task_id)]
        back, of = f"/what-if?{_query(request)}", "the plan under these wishes"
        return self._page("task", request, told=told, why=words.why(told), moved=moved, back=back, of=of, attempts=[])

    def task_then(self, request: Request) -> Response:
        """Why a task of a past round went where it went."""
        number = request.path_params["number"]
        told = self.board.explained_then(number, request.query_params.get("task", ""))
        moved = self.board.round(number)[0]["data"].get("moved_by", {}).get(told.task_id, [])
        ran = self.board.attempts([told.task_id]).get(told.task_id, [])
        back, of = f"/rounds/{number}", f"round {number}"
        return self._page("task", request, told=told, why=words.why(told), moved=moved, back=back, of=of, attempts=ran)

    def clusters(self, request: Request) -> Response:
        """Which take tasks, how busy they are, how predictions of them do."""
        self.board.refresh()
        return self._page("clusters", request, clusters=self.board.clusters())

    def releases(self, request: Request, *, status: int = 200, problem: str = "") -> Response:
        """Releases, and who decided when, and why."""
        store, models = self.board.store, self.board.models
        if store is None or models is None:
            return self._page("nothing", request)
        rows, crowned = store.models().to_dict("records")[::-1], store.champions().to_dict("records")[::-1]
        return self._page("releases", request, status, rows=rows, crowned=crowned, current=models.current(),
                          challenging=models.challenging(), problem=problem)  # fmt: skip

    def promote(self, request: Request) -> Response:
        """Let a release decide, for who knows the token."""
        form = {name: values[0] for name, values in parse_qs(request.state.body.decode("utf-8", "replace")).items()}
        models = self.board.models
        if self.token is None or models is None:
            return self.releases(request, status=403, problem="Promotions need `mfcp ui` to be started with a token.")
        if not hmac.compare_digest(form.get("token", "").encode(), self.token.encode()):
            return self.releases(request, status=403, problem="That is not the token. Nothing was changed.")
        try:
            models.promote(form.get("version", ""), "by hand, on the page")
        except MfcpError as error:
            return self.releases(request, status=409, problem=str(error))
        return RedirectResponse("/releases", 303)

    def _wish(self, given: Mapping[str, str], source: str) -> Wish:
        """What the controls say.

        Raises:
            SettingsError: something that is no number.
        """
        clusters, usual = self.board.release.cluster_id, self.board.completed(Wish(given.get("source") or source))
        busy = usual.backlog or {}
        waits = {
            name: (_number(given, f"backlog.{name}") or 0.0) if f"backlog.{name}" in given else busy.get(name, 0.0)
            for name in clusters
        }
        off = frozenset(name for name in clusters if given.get(f"off.{name}"))
        gamma = _number(given, "gamma")
        return replace(usual, gamma=usual.gamma if gamma is None else gamma, price=_number(given, "price"),
                       backlog=waits, off=off)  # fmt: skip

    def _page(self, name: str, request: Request, status: int = 200, **told: Any) -> Response:
        template = self.environment.get_template(f"{name}.html.j2")
        return HTMLResponse(template.render(path=request.url.path, **told), status)

    def error(self, request: Request, status: int, message: str) -> Response:
        """An error as a page."""
        return self._page("error", request, status, message=message, code=status)


def create_app(board: Board, *, token: str | None = None) -> Starlette:
    """The page.

    Args:
        board: what is shown.
        token: that a promotion must name; None forbids promotions.
    """
    pages = Pages(board, token)

    async def refused(request: Request, error: Exception) -> Response:
        status = 422 if isinstance(error, SettingsError) else status_of(error) if isinstance(error, MfcpError) else 500
        return pages.error(request, status, str(error))

    async def absent(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return pages.error(request, error.status_code, str(error.detail))

    async def broken(request: Request, error: Exception) -> Response:
        LOG.error("%s", request.url.path, exc_info=error)
        return pages.error(request, 500, "internal error; the terminal of `mfcp ui` has it")

    return Starlette(
        routes=pages.routes(),
        middleware=[Middleware(Headers), Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS), Middleware(Body)],
        exception_handlers={MfcpError: refused, HTTPException: absent, Exception: broken},
    )


class Body:
    """Reads the body of a form before its page, which runs in a thread, is asked."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read at most what a form has; the rest is refused."""
        if scope["type"] == "http" and scope["method"] == "POST":
            request, body = Request(scope, receive), b""
            async for part in request.stream():
                body += part
                if len(body) > _FORM_BYTES:
                    await HTMLResponse("the form is too large", 413)(scope, receive, send)
                    return
            request.state.body = body
        await self.app(scope, receive, send)


def _told(decision: Any) -> str:
    return words.plan(decision.status, decision.makespan, decision.gap, decision.mean_reliability, decision.gamma)


def _query(request: Request) -> str:
    """The controls, to hand on; what they leave empty is left out, but for a backlog, which is 0 then."""
    controls = request.query_params.multi_items()
    return urlencode([(k, v) for k, v in controls if k != "task" and (v or k.startswith("backlog."))])


def _number(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name, "").strip()
    try:
        return float(text) if text else None
    except ValueError:
        raise SettingsError(f"{name}: expected a number, got '{text[:40]}'") from None
