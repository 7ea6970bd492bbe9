"""The family of policies that choose how each job runs: plans of rigid jobs, or sizes of elastic ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Clock, Policy

Falls = Callable[[Ints, Floats], Floats]


@dataclass(frozen=True)
class Demand:
    """What a policy sees when it decides: k jobs that wait or run, and C configurations.

    Attributes:
        now: seconds.
        job: (k,) rows of the jobs, in order of submission.
        submit, deadline: (k,) seconds.
        asked: (k,) accelerators that the user asked for.
        left: (k,) iterations that are believed to be left.
        executed: (k,) seconds on accelerators so far.
        chosen: (k,) present configuration; -1 while a job waits.
        rate: (k, C) iterations per second; 0 where a job cannot run so.
        gpus, type, watts: (C,) of the configurations.
        size: (K,) accelerators of each type.
        nodes: (L,) accelerators of each node.
        falls: rows of jobs (k,) and iterations further (k, C) → (k, C) how far their losses are expected to fall; None
            where nothing is told from losses.
    """

    now: float
    job: Ints
    submit: Floats
    deadline: Floats
    asked: Ints
    left: Floats
    executed: Floats
    chosen: Ints
    rate: Floats
    gpus: Ints
    type: Ints
    watts: Floats
    size: Ints
    nodes: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    falls: Falls | None = None

    @property
    def seconds(self) -> Floats:
        """(k, C) that the rest is believed to take; infinite where a job cannot run so."""
        with np.errstate(divide="ignore"):
            return np.where(self.rate > 0, self.left[:, None] / np.where(self.rate > 0, self.rate, 1.0), np.inf)

    def rows(self, mask: Bools) -> Demand:
        """The same for some of the jobs."""
        names = ("job", "submit", "deadline", "asked", "left", "executed", "chosen", "rate")
        columns = {name: getattr(self, name)[mask] for name in names}
        others = {name: getattr(self, name) for name in ("now", "gpus", "type", "watts", "size", "nodes", "falls")}
        return Demand(**columns, **others)


@dataclass(frozen=True)
class Allotment:
    """How each job runs from now on.

    Attributes:
        chosen: (k,) configuration; -1 to wait.
        wake: seconds when to decide again, even if nothing happens until then.
        order: (k,) rows in the order in which those of one size are placed; None for theirs.
        ends: (k,) seconds until when each job is planned to hold what it has; None where it runs as it does now.
    """

    chosen: Ints
    wake: float = np.inf
    order: Ints | None = None
    ends: Floats | None = None


class Decider(Protocol):
    """Admits and decides."""

    def admit(self, demand: Demand, new: Bools) -> Bools:
        """See `Deciding`."""

    def decide(self, demand: Demand) -> Allotment:
        """See `Deciding`."""


class Deciding(Policy):
    """Chooses a configuration for every job at every event."""

    clock: ClassVar[Clock] = "decisions"
    elastic: ClassVar[bool] = False  # whether jobs can run on other numbers of accelerators than they ask for
    scales: ClassVar[bool] = True  # whether, if nobody has measured it, rates follow the number to the power 0.9

    def ways(self, jobs: Jobs, cluster: Cluster, speed: Floats) -> Configurations:
        """How jobs can run where nobody has measured it; `speed` (n, K) is as of `simulate`."""
        made = Configurations.elastic if self.elastic else Configurations.rigid
        return made(jobs, cluster, speed)

    def admit(self, demand: Demand, new: Bools) -> Bools:
        """(k,) which of the new jobs are taken; the others never run."""
        return new

    def decide(self, demand: Demand) -> Allotment:
        """Within the accelerators of each type."""
        raise NotImplementedError

    def start(self) -> Decider:
        """What decides in one run: the policy, unless it has to remember earlier decisions."""
        return self


def fill(demand: Demand, order: Ints, worth: Floats, chosen: Ints | None = None) -> Ints:
    """Give jobs what is free, one after another.

    Args:
        demand: the jobs.
        order: rows of those that get something, first to last.
        worth: (k, C) of each configuration to each job; where it cannot run does not matter.
        chosen: (k,) what others have already; -1 for nothing, the default.

    Returns:
        (k,) the configuration of each: of those that fit into what is left, the one of most worth; -1 if none does.
    """
    chosen = np.full(len(demand.job), -1) if chosen is None else chosen.copy()
    held = chosen[chosen >= 0]
    free = demand.size - np.bincount(demand.type[held], demand.gpus[held], len(demand.size)).astype(np.int64)
    for i in order:
        fits = (demand.rate[i] > 0) & (demand.gpus <= free[demand.type])
        if fits.any():
            chosen[i] = c = int(np.where(fits, worth[i], -np.inf).argmax())
            free[demand.type[c]] -= demand.gpus[c]
        if not free.any():
            break  # thousands may wait
    return chosen


def grow(demand: Demand, chosen: Ints, gain: Floats) -> Ints:
    """Give what is free, a step at a time, to the job with the largest gain per accelerator.

    Args:
        demand: the jobs.
        chosen: (k,) to start from; -1 for jobs that have nothing yet.
        gain: (k, C + 1) worth of each configuration to each job, that of nothing last; -inf where it cannot run.

    Returns:
        (k,) configurations. Every step goes to the next larger configuration of a job that is worth more to it.
    """
    chosen, k = chosen.copy(), len(chosen)
    cost = np.append(demand.gpus, 0)
    free = demand.size.astype(np.int64).copy()
    np.subtract.at(free, demand.type[chosen[chosen >= 0]], demand.gpus[chosen[chosen >= 0]])
    rows = np.arange(k)
    while k:
        more = cost[None, :-1] - cost[chosen][:, None]
        same = (chosen < 0)[:, None] | (demand.type[None, :] == demand.type[chosen][:, None])
        better = gain[:, :-1] - gain[rows, chosen][:, None]
        possible = (more > 0) & same & (more <= free[demand.type]) & (better > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            worth = np.where(possible, better / more, -np.inf)
        if not np.isfinite(best := worth.max(initial=-np.inf)) and best != np.inf:
            break
        i, c = np.unravel_index(int(worth.argmax()), worth.shape)
        free[demand.type[c]] -= more[i, c]
        chosen[i] = c
    return chosen
