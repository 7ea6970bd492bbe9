"""Requests as bytes to answers as bytes: reading, computing, and what goes wrong, apart from how they travel."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from mfcp.errors import MfcpError
from mfcp.platform.service.answers import Answers, Asked, asked_models, status_of
from mfcp.platform.service.champion import Champion
from mfcp.platform.service.protocol import Answer, ServeSettings
from mfcp.platform.service.skypilot import ordered

LOG = logging.getLogger("mfcp.serve")
_SHOWN = 10  # problems of a request


class Desk:
    """Answers requests with the release that decides.

    Args:
        champion: that release.
        settings: limits.
        token: whether clients need one; the OpenAPI document says so.
    """

    def __init__(self, champion: Champion, settings: ServeSettings, *, token: bool = False) -> None:
        self.champion, self.token, self._shown = champion, token, ""
        self._answers = answers = Answers(champion, time_limit=settings.time_limit)
        self.models = asked_models(settings.tasks, settings.operators)
        works = (answers.predict, answers.match, answers.explain)
        self._works: dict[str, tuple[type[Asked], Callable[[Any], bytes]]] = {
            work.__name__: (model, work) for model, work in zip(self.models, works, strict=True)
        }

    @property
    def state(self) -> dict[str, Any]:
        """See `Answering`."""
        return self.champion.state

    def refresh(self) -> None:
        """See `Answering`; loading a release disturbs nobody."""
        self.champion.refresh()
        if self.champion.version != self._shown:
            _freeze(again=bool(self._shown))
            self._shown = self.champion.version

    def answer(self, name: str, body: bytes, request: str) -> Answer:
        """See `Answering`; what SkyPilot's own users have to mend has the status by which it tells them.

        Args:
            name: predict, match or explain, or skypilot.
            body: JSON.
            request: its id, for the log.
        """
        told = self._answer(name, body, request)
        mistaken = name == "skypilot" and 400 <= told.status < 500
        return Answer(400, told.content) if mistaken else told

    def _answer(self, name: str, body: bytes, request: str) -> Answer:
        try:
            if name == "skypilot":
                return Answer(200, ordered(body, self._answers, self.models[2]))
            model, work = self._works[name]
            asked = model.model_validate_json(body)
            return Answer(200, work(asked), len(asked.tasks) if name == "match" else 0)
        except ValidationError as error:
            return _wrong(error)
        except MfcpError as error:
            return _error(status_of(error), str(error))
        except Exception:
            LOG.exception("%s %s", request, name)
            return _error(500, f"internal error; the service's log has it under {request}")

    def document(self) -> dict[str, Any]:
        """See `Answering`."""
        from mfcp.platform.service.api import document

        return document(self.models, token=self.token)


def _wrong(error: ValidationError) -> Answer:
    problems = error.errors(include_url=False, include_context=False)
    if problems[0]["type"] == "json_invalid":
        return _error(400, f"body: {problems[0]['msg']}")
    fields = [
        {"field": ".".join(map(str, p["loc"])) or "body", "expected": p["msg"], "got": repr(p.get("input"))[:80]}
        for p in problems[:_SHOWN]
    ]
    first = f"{fields[0]['field']}: {fields[0]['expected']}, got {fields[0]['got']}"
    return _told(422, {"error": first, "problems": len(problems), "fields": fields})


def _error(status: int, message: str) -> Answer:
    return _told(status, {"error": message})


def _told(status: int, content: dict[str, Any]) -> Answer:
    return Answer(status, json.dumps(content).encode())


def _freeze(*, again: bool) -> None:
    """Keep the garbage collector off what stays, which is torch, pandas and the release, so that it pauses no request.

    With `again` it first looks at what it was kept off before, and so frees what the last release left behind.
    """
    if again:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
