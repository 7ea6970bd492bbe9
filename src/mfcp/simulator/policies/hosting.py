"""The family of policies that run jobs as workers and parameter servers on hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt, field_validator

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Clock, Policy, Uses
from mfcp.simulator.policies.deciding import Falls
from mfcp.simulator.qore.equations import THRESHOLDS, WORKERS, Thresholds
from mfcp.simulator.qore.hosts import Spread

Order = Literal["fifo", "edf", "srsf", "qore"]


class Hosting(Policy):
    """How workers and servers of jobs are placed, and what a change of their number or size costs."""

    clock: ClassVar[Clock] = "hosts"
    uses: ClassVar[Uses] = ("expected",)
    instead: ClassVar[str] = "hydra or chronus"
    elastic: ClassVar[bool] = True  # as of `Deciding`
    scales: ClassVar[bool] = True
    spread: Spread = Field("least loaded", description="which host a part of a job takes")
    servers: bool = Field(False, description="whether jobs have parameter servers; workers of a ring have none")
    tick_s: float = Field(120.0, ge=1, description="seconds between two changes of sizes")
    change_s: float = Field(
        10.0, ge=0, description="seconds without progress of a job whose size changes, if its own overhead is unknown"
    )


class Queueing(Hosting):
    """A queue: jobs get a size, start when they fit, and may be changed while they run."""

    order: Order = Field("fifo", description="of the queue: submission, deadline, least need × time, or Eq. 8")
    sized: bool = Field(False, description="whether the configurator sizes jobs (Eq. 5), else the user does")
    workers: tuple[PositiveInt, PositiveInt, PositiveInt] = Field(
        WORKERS, description="most workers that the configurator gives at loads below 0.4, below 0.7, and above"
    )
    generous: float = Field(1.0, ge=1, description="CPU and memory that users ask for, over what a job uses at most")
    adjusts: bool = Field(False, description="whether Qore-DL's adjuster changes running jobs")
    search: Literal["exhaustive", "genetic"] = Field("exhaustive", description="of the adjuster")
    thresholds: Thresholds = Field(
        THRESHOLDS, description="of the load: light, free to grow, and heavy; what the order and the adjuster go by"
    )

    @field_validator("thresholds")
    @classmethod
    def _ascend(cls, thresholds: Thresholds) -> Thresholds:
        if not thresholds[0] <= thresholds[1] <= thresholds[2]:
            raise ValueError("expected three numbers, none below the one before")
        return thresholds


@dataclass(frozen=True)
class SizeWish:
    """What one who sizes all jobs at once sees of k jobs: by the same predictions as the configurator.

    Attributes:
        row: (k,) which they are, in the order of submission.
        left: (k,) iterations believed to be left, of one worker; done: (k,) so far.
        seconds: (k,) of an iteration at full size.
        available: (k,) seconds until the deadline.
        need: (k, 3) part that one worker takes of all accelerators, CPU and memory; all together may take 1 of each.
        cost: (k,) the same, weighted.
        falls: as of `Demand`, iterations of one worker.
    """

    row: Ints
    left: Floats
    done: Floats
    seconds: Floats
    available: Floats
    need: Floats
    cost: Floats
    falls: Falls | None = None


class Resizing(Hosting):
    """Sizes all jobs anew at every event and tick."""

    most: int = Field(WORKERS[0], ge=1, description="workers of a job")

    def sizes(self, wish: SizeWish) -> Ints:
        """(k,) workers of all jobs, 0 to wait."""
        raise NotImplementedError


def time_saved(wish: SizeWish, workers: Ints) -> Floats:
    """(k,) seconds that one more worker saves."""
    whole = wish.left * wish.seconds
    return np.where(workers > 0, whole / np.maximum(workers, 1) - whole / (workers + 1), whole)


def room_beside(wish: SizeWish, workers: Ints) -> Floats:
    """(3,) part of each resource that is free beside (k,) workers."""
    return np.asarray(1.0 - workers @ wish.need)


def one_worker_each(wish: SizeWish, order: Ints, workers: Ints | None = None) -> Ints:
    """A worker for each job that has none, in this order, while there is room."""
    workers = np.zeros(len(wish.row), np.int64) if workers is None else workers
    free = room_beside(wish, workers)
    for i in order:
        if workers[i] == 0 and (wish.need[i] <= free).all():
            workers[i] = 1
            free -= wish.need[i]
    return workers


def more_workers(wish: SizeWish, workers: Ints, most: int, gain: Callable[[Ints], Floats]) -> Ints:
    """One worker more where it is worth most over its need, again and again, while there is room.

    Args:
        wish: the jobs.
        workers: (k,) to start from.
        most: of one job.
        gain: (k,) workers → (k,) what one more is worth.
    """
    free = room_beside(wish, workers)
    while True:
        fits = (workers > 0) & (workers < most) & np.all(wish.need <= free, axis=1)
        worth = np.where(fits, gain(workers) / wish.cost, -np.inf)
        if not len(worth) or worth.max() <= 0:
            return workers
        best = int(worth.argmax())
        workers[best] += 1
        free -= wish.need[best]
