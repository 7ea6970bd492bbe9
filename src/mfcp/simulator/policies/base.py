"""The family of scheduling policies, and what a policy sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import ClassVar, Literal

import numpy as np

from mfcp.arrays import Floats, Ints, Texts
from mfcp.errors import SettingsError
from mfcp.registry import Registered
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.qore.training_losses import TrainingLosses

Skip = Literal["any", "nobody", "backfill"]
Clock = Literal["events", "rounds", "decisions", "colocations", "hosts"]
Uses = tuple[Literal["expected", "deadline"], ...]


@dataclass(frozen=True)
class View:
    """What a policy knows of the jobs: never how long they will really take.

    Attributes:
        submit: (n,) seconds.
        gpus: (n,) accelerators.
        expected: (n,) seconds that a job is believed to take; NaN where unknown.
        deadline: (n,) absolute seconds.
        cluster: where they run.
        iterations: (n,) that the jobs are to do, as their users say.
        user: (n,) who submitted; empty where unknown.
        losses: what is told of the rest while jobs train; None if nothing is. `expected` is of all epochs then.
    """

    submit: Floats
    gpus: Ints
    expected: Floats
    deadline: Floats
    cluster: Cluster
    iterations: Floats
    user: Texts
    losses: TrainingLosses | None = None

    @staticmethod
    def of(jobs: Jobs, cluster: Cluster, expected: Floats, losses: TrainingLosses | None = None) -> View:
        """Of jobs with these expected durations."""
        return View(jobs.submit, jobs.gpus, expected, jobs.deadline, cluster, jobs.iterations, jobs.user, losses)

    @property
    def history(self) -> Floats:
        """Accelerator-seconds of jobs, as expected of these themselves, for policies that need their distribution."""
        return (self.expected * self.gpus)[~np.isnan(self.expected)]


class Policy(Registered):
    """A scheduling policy: its fields are its settings."""

    uses: ClassVar[Uses] = ()
    clock: ClassVar[Clock]  # which makes time pass for it
    instead: ClassVar[str] = ""  # of one that plans on a single type of accelerator: what to take where there are more

    def check(self, view: View) -> None:
        """What it uses must be known, and all accelerators of one type where it plans on one.

        Raises:
            SettingsError: it is not.
        """
        if "expected" in self.uses and np.isnan(view.expected).any():
            raise SettingsError(f"policy '{self.name}' needs expected durations; choose a belief other than 'nothing'")
        if "deadline" in self.uses and np.isinf(view.deadline).all():
            raise SettingsError(f"policy '{self.name}' needs deadlines; the trace has no column deadline")
        if self.instead and len(view.cluster.types) > 1:
            raise SettingsError(
                f"policy '{self.name}' plans on one type of accelerator, and the cluster has "
                f"{', '.join(view.cluster.types)}; simulate each type apart, or take {self.instead}"
            )

    def check_known(self, values: Floats) -> None:
        """What it orders or shares by must be numbers: a duration that is not known makes them NaN.

        Raises:
            SettingsError: they are not.
        """
        if np.isnan(values).any():
            raise SettingsError(
                f"policy '{self.name}' looks at what is not known, such as durations; give its class "
                "uses = ('expected',), and choose a belief other than 'nothing'"
            )


@dataclass(frozen=True)
class Keys:
    """The order of jobs: by (rank of the level, value + weight × seconds believed to be left), least first.

    A job's level is how many of `limits` its attained service, accelerators × seconds, has reached. Levels change
    while a job runs; the clock makes an event of it.

    Attributes:
        value: (n,).
        weight: (n,), or one for all.
        limits: (L,) accelerator-seconds, ascending.
        rank: (L + 1,) of each level; ascending if None.
        promote: of a policy that preempts: a job that has waited so many times the seconds it ran goes back to the
            first level; infinite if none does.
    """

    value: Floats
    weight: Floats | float = 0.0
    limits: Floats = field(default_factory=lambda: np.empty(0))
    rank: Floats | None = None
    promote: float = np.inf

    def before_start(self, expected: Floats) -> Floats:
        """(n,) of jobs of which nothing is done yet, from the seconds that they are believed to take."""
        if np.ndim(self.weight) == 0 and self.weight == 0:
            return self.value
        weight = np.broadcast_to(np.asarray(self.weight, float), self.value.shape)
        return np.asarray(self.value + np.where(weight != 0, weight * expected, 0.0))


@dataclass(frozen=True)
class Instant:
    """What an ordering policy that asks sees at an event: k active jobs.

    Attributes:
        now: seconds.
        active: (k,) rows of the jobs which wait or run.
        left: (k,) seconds that they are believed to need.
        executed: (k,) seconds that they have had.
    """

    now: float
    active: Ints
    left: Floats
    executed: Floats


class Ordering(Policy):
    """Jobs by a key: those that come first run, as far as they fit."""

    clock: ClassVar[Clock] = "events"
    preempts: ClassVar[bool] = False
    skip: Skip = "any"
    asks: ClassVar[bool] = False  # whether `values` is to be called at every event

    def keys(self, view: View) -> Keys:
        """The order, before the first event."""
        raise NotImplementedError

    def values(self, view: View, instant: Instant) -> Floats:
        """Of policies that ask: `value` of the active jobs now, from what is seen now."""
        raise NotImplementedError

    def watch(self, view: View) -> Callable[[Instant], Floats]:
        """What gives the values in one run: `values`, unless the policy has to remember earlier instants."""
        return partial(self.values, view)


@dataclass(frozen=True)
class Moment:
    """What a policy of shares sees at a reset: k active jobs and K types of accelerators.

    Attributes:
        job: (k,) numbers, in order of submission.
        gpus: (k,) accelerators that each asks for.
        speed: (k, K) steps per second on them; 0 where the job does not run.
        left: (k,) steps that are believed to be left.
        waited: (k,) seconds since submission.
        isolated: (k,) seconds that the steps done so far would have taken under an equal split.
        before: (k, K) shares of the last reset; zeros for new jobs.
        freed: types on which a job has ended since, of the last submitted first.
        size: (K,) accelerators of each type.
        random: a stream of the run's seed.
        deadline: (k,) absolute seconds; infinite where there is none.
        pair: (p, 2) jobs that could share accelerators, positions among the k, the one submitted first before; of
            policies that pack.
        together: (p, K, 2) steps per second of both then; 0 where they cannot.
    """

    job: Ints
    gpus: Ints
    speed: Floats
    left: Floats
    waited: Floats
    isolated: Floats
    before: Floats
    freed: tuple[int, ...]
    size: Ints
    random: Random
    deadline: Floats = field(default_factory=lambda: np.empty(0))
    pair: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))
    together: Floats = field(default_factory=lambda: np.empty((0, 0, 2)))

    @property
    def equal_split(self) -> Floats:
        """(k,) steps per second if every job had the same share of every type."""
        part = self.size / max(len(self.job), 1) / self.gpus[:, None]
        part = part / np.maximum(part.sum(axis=1, keepdims=True), 1.0)
        split: Floats = (self.speed * part).sum(axis=1)
        return split

    @property
    def kept(self) -> Floats:
        """(p, K, 2) the part of its speed alone that each job of a pair keeps; 0 where it does not run alone."""
        if not len(self.pair):
            return np.zeros((0, len(self.size), 2))
        alone = np.stack([self.speed[self.pair[:, 0]], self.speed[self.pair[:, 1]]], axis=2)
        return np.asarray(self.together / np.where(alone > 0, alone, np.inf))


class Shares(Policy):
    """How the time on types of accelerators is shared: solved at resets, followed in rounds."""

    clock: ClassVar[Clock] = "rounds"
    blind: ClassVar[bool] = False  # ignores types: the order in which they are filled is drawn every round
    strict: ClassVar[bool] = False  # a job without a share on a type does not fill a gap there
    packs: ClassVar[bool] = False  # gives shares to pairs of jobs too, which then share accelerators

    def solve(self, moment: Moment) -> Floats:
        """(k, K) shares of time, each in [0, 1], of a job at most 1 in all, of a type at most what it has.

        If the policy packs, (k + p, K): those of the pairs below.
        """
        raise NotImplementedError

    def watch(self) -> Callable[[Moment], Floats]:
        """What gives the shares in one run: `solve`, unless the policy has to remember earlier moments."""
        return self.solve
