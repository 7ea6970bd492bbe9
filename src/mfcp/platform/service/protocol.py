"""What the process that listens and the one that computes agree on: limits, and how a request is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field


class ServeSettings(BaseModel):
    """What a request may be, and how many at once."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(1000, ge=1, description="tasks of a request at most")
    operators: int = Field(200_000, ge=0, description="rows of nodes, and of edges, of a request at most")
    body_mib: float = Field(32.0, gt=0, description="size of a request at most")
    threads: int = Field(2, ge=1, description="requests computed at once")
    waiting: int = Field(64, ge=1, description="requests that may wait or be computed; others are told to come later")
    body_s: float = Field(10.0, gt=0, description="seconds in which a request must have arrived")
    time_limit: float = Field(2.0, gt=0, description="seconds for the bound, or an engine")
    graphs: int = Field(10_000, ge=1, description="operator graphs whose encoding is remembered")


@dataclass(frozen=True)
class Answer:
    """What a client is told.

    Attributes:
        status: of HTTP.
        content: JSON.
        tasks: that were given a cluster.
    """

    status: int
    content: bytes
    tasks: int = 0


class Answering(Protocol):
    """A `Desk`, here or in another process."""

    @property
    def state(self) -> dict[str, Any]:
        """What /health answers; at once."""
        ...

    def refresh(self) -> None:
        """See whether another release decides; called once a second."""
        ...

    def answer(self, name: str, body: bytes, request: str) -> Answer:
        """Answer a request; takes as long as it takes."""
        ...

    def document(self) -> dict[str, Any]:
        """The OpenAPI document."""
        ...
