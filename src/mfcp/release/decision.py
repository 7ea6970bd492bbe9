"""One round decided: what a release believes, the plan that follows, and how far it is from a certified bound."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError, SettingsError
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import SLACK, MatchingProblem, makespan, reliability
from mfcp.release.evidence import Believed, Evidence, Mover
from mfcp.release.model import Release
from mfcp.rules.base import WIDTH, Belief

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

_MANY_TASKS = 200  # above, a search that proves more than prices do is not worth its time
_BOUND = {"kind": "dual", "target": 1.0}
_FEW_BOUND = {"kind": "search", "effort": 1_000, "budget": 3_000}  # a better plan would not make the bound better


@dataclass(frozen=True)
class Decision:
    """The plan of a round of n tasks on the clusters at hand, and what it was based on.

    Attributes:
        task_id, cluster_id: (n,) each task and its cluster.
        assignment: (n,) positions of these clusters in `clusters`.
        clusters: (M,) those that could be chosen.
        belief: of the round, B = 1, over `clusters`.
        makespan: predicted seconds until the last cluster is done.
        lower_bound: seconds that no plan of at least this plan's predicted reliability, or gamma, can undercut.
        mean_reliability: predicted share of successes; None where nothing is known of reliability.
        gamma: what was asked for; None where it was not applied, because nothing is known of reliability.
        status: "optimal" where makespan and bound agree, "feasible", or "short" where the plan is predicted to miss
            gamma.
        rule: what chose the plan: the release's rule, or an engine.
        price: of a unit of missing reliability, in makespans.
        took_s: seconds for prediction, plan and bound.
        believed: of all tasks on all clusters of the release, and what evidence told of them.
        version, data: of the release.
        provenance: see `Release.provenance`.
    """

    task_id: tuple[str, ...]
    assignment: Ints
    clusters: tuple[str, ...]
    belief: Belief
    makespan: float
    lower_bound: float
    mean_reliability: float | None
    gamma: float | None
    status: str
    rule: str
    price: float
    took_s: float
    believed: Believed
    version: str
    data: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def cluster_id(self) -> tuple[str, ...]:
        """(n,) the chosen clusters' names."""
        return tuple(self.clusters[i] for i in self.assignment)

    @property
    def gap(self) -> float:
        """(makespan - lower_bound) / lower_bound."""
        return self.makespan / self.lower_bound - 1.0

    @property
    def backlog(self) -> dict[str, float]:
        """Seconds for which clusters were taken to be busy before; idle ones are left out."""
        if self.belief.backlog is None:
            return {}
        waits = zip(self.clusters, self.belief.backlog[0].tolist(), strict=True)
        return {name: seconds for name, seconds in waits if seconds}

    def movers(self) -> list[tuple[Mover, ...]]:
        """Per task, the observed runs that moved its time on its cluster most, the first most."""
        return [self.believed.movers(j, name) for j, name in enumerate(self.cluster_id)]

    def summary(self) -> dict[str, Any]:
        """The plan as a whole, as JSON has it; `chosen` has its tasks."""
        return {
            **self.provenance,
            "rule": self.rule,
            "status": self.status,
            "backlog": self.backlog,
            "gamma": self.gamma,
            "reliability": self.mean_reliability,
            "makespan": self.makespan,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
        }

    def chosen(self) -> dict[str, Floats]:
        """Seconds and reliability of each task on its cluster, with 95 % intervals: each (n,), see `intervals`."""
        every = intervals(self.belief)
        j = np.arange(len(self.assignment))
        return {name: value[0, self.assignment, j] for name, value in every.items()}


def intervals(belief: Belief) -> dict[str, Floats]:
    """seconds, seconds_low, seconds_high, reliability, reliability_low, reliability_high: each (B, M, N).

    Intervals of 95 %: of log times `belief.width` deviations about their median, of reliabilities normal, cut at 0 and
    1, all nan where nothing is known of them.
    """
    factor, width = np.exp(belief.width * belief.log_sd), WIDTH * belief.a_sd
    reliability = belief.A if belief.reliability_known else np.full(belief.A.shape, np.nan)
    return {
        "seconds": belief.T,
        "seconds_low": belief.T / factor,
        "seconds_high": belief.T * factor,
        "reliability": reliability,
        "reliability_low": np.clip(reliability - width, 0, 1),
        "reliability_high": np.clip(reliability + width, 0, 1),
    }


# Over 60 lines: half of them say what each argument is.
def decide(
    release: Release,
    tables: Tables,
    *,
    gamma: float | None = None,
    clusters: Collection[str] | None = None,
    engine: str = "auto",
    time_limit: float = 2.0,
    price: float | None = None,
    backlog: Mapping[str, float] | None = None,
    believed: Believed | None = None,
    evidence: Evidence | None = None,
) -> Decision:
    """Predict and match one round.

    Args:
        release: what predicts and, with engine "auto", its rule.
        tables: `tasks`, n rows, and their `nodes` and `edges`.
        gamma: least mean reliability; None takes the release's own.
        clusters: those at hand; None takes all that the release knows. Unknown ones are left out.
        engine: "auto" for the release's rule, else an engine that takes the predictions for the truth.
        time_limit: seconds for the bound, or the engine.
        price: of a unit of missing reliability, in makespans; None takes the release's own.
        backlog: cluster → seconds for which it is busy before it can start; 0 where none is named.
        believed: what the release believes of these tasks, where that was asked before.
        evidence: of runs that the release has not learned from.

    Raises:
        DataError: no task, or no cluster at hand that the release knows.
        SettingsError: unknown engine, gamma outside [0, 1], or a price or a backlog that is not finite or below 0.
    """
    begin = time.perf_counter()
    believed = believed or release.believe(tables, evidence)
    belief, names = _at_hand(release, believed, clusters)
    belief = under(belief, names, gamma, backlog or {})
    price = release.price if price is None else _amount("price", price)
    problem, rule = belief.problem(), release.trained.method.rule
    if engine == "auto":
        plan = rule.plan(belief, parameter=float(release.trained.parameter[0]), price=price)
    else:
        plan = solve_or_fall_back(problem, engine, time_limit=time_limit).assignment
    ends, reached = float(makespan(plan, problem.T, backlog=problem.backlog)[0]), float(reliability(plan, problem.A)[0])
    asked = float(problem.gamma[0])
    bound = min(_bound(problem, min(asked, reached), time_limit), ends)
    short, tight = reached < asked - SLACK, ends <= bound * (1 + 1e-6)
    return Decision(
        task_id=tuple(tables["tasks"]["task_id"].astype(str)),
        assignment=plan[0],
        clusters=names,
        belief=belief,
        makespan=ends,
        lower_bound=bound,
        mean_reliability=reached if release.reliability_known else None,
        gamma=asked if release.reliability_known else None,
        status="short" if short else "optimal" if tight else "feasible",
        rule=rule.name if engine == "auto" else engine,
        price=price,
        took_s=time.perf_counter() - begin,
        believed=believed,
        version=release.version,
        data=release.data,
        provenance=_provenance(release, tables, believed, names),
    )


def _at_hand(release: Release, believed: Believed, clusters: Collection[str] | None) -> tuple[Belief, tuple[str, ...]]:
    """The belief over the clusters that may be chosen, and their names.

    A task is not sent where it is not expected to have the memory that it needs; one that has it nowhere may run
    everywhere.
    """
    own = [i for i, name in enumerate(release.cluster_id) if clusters is None or name in clusters]
    if not own:
        assert clusters is not None
        raise DataError(
            f"clusters: none of {', '.join(sorted(clusters)) or 'no clusters'} is known to release {release.version}; "
            f"it knows {', '.join(release.cluster_id)}"
        )
    fits = ~believed.lacks[own]
    belief = believed.belief if len(own) == len(release.cluster_id) else believed.belief.on(own)
    if not fits.all():
        belief = replace(belief, allowed=belief.allowed & (fits | ~fits.any(axis=0))[None])
    return belief, tuple(release.cluster_id[i] for i in own)


def _provenance(release: Release, tables: Tables, believed: Believed, names: tuple[str, ...]) -> dict[str, Any]:
    """That of the release, and which clusters were left out for want of memory."""
    told = release.provenance(tables)
    own = [release.cluster_id.index(name) for name in names]
    lacks, peak = believed.lacks[own], believed.peak[own]
    for j in np.flatnonzero(lacks.any(axis=0)):
        task, needs = str(tables["tasks"]["task_id"].iloc[j]), peak[lacks[:, j], j] / 2**30
        need = " to ".join(dict.fromkeys(f"{bound:.1f}" for bound in (needs.min(), needs.max())))
        left = "it is expected to fit nowhere" if lacks[:, j].all() else "it is not sent there"
        where = ", ".join(np.array(names)[lacks[:, j]].tolist())
        told["not_measured"].append(f"memory of {task} on {where}: {need} GiB are predicted, so {left}")
    return told


def under(belief: Belief, names: tuple[str, ...], gamma: float | None, backlog: Mapping[str, float]) -> Belief:
    """The belief with another gamma, where reliability is known, and with what the clusters still have to do."""
    if gamma is not None and not 0 <= gamma <= 1:
        raise SettingsError(f"gamma: expected a mean reliability in [0, 1], got {gamma}")
    if gamma is not None and belief.reliability_known:
        belief = replace(belief, gamma=np.array([float(gamma)]))
    waits = np.array([[_amount(f"backlog of {name}", backlog.get(name, 0.0)) for name in names]])
    return replace(belief, backlog=waits) if waits.any() else belief


def _amount(name: str, value: float) -> float:
    if not 0 <= value < np.inf:
        raise SettingsError(f"{name}: expected a finite number, at least 0, got {value}")
    return float(value)


def _bound(problem: MatchingProblem, gamma: float, time_limit: float) -> float:
    """Seconds that no plan with mean reliability gamma undercuts, under the predictions."""
    engine = _FEW_BOUND if problem.tasks <= _MANY_TASKS and not problem.extended else _BOUND
    return float(solve(problem.at(gamma), engine, time_limit=time_limit).lower_bound[0])
