"""Plans as Gantt charts: lanes of bars in per cent of a span, which the templates draw."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mfcp.arrays import Floats

_LAST = 99.8  # per cent at which a line is still seen


@dataclass(frozen=True)
class Bar:
    """One task in a lane.

    Attributes:
        start, width: per cent of the chart's span.
        task_id: its name.
        seconds: predicted.
        kind: "even" or "odd", so that neighbours can be told apart; "moved" where another wish has put it here.
    """

    start: float
    width: float
    task_id: str
    seconds: float
    kind: str


@dataclass(frozen=True)
class Lane:
    """One cluster: its backlog, then its tasks one after another.

    Attributes:
        cluster_id: its name.
        wait: per cent of the span until its backlog is done; 0 where it has no task, which nobody waits for.
        bars: its tasks.
        seconds: until it is done.
    """

    cluster_id: str
    wait: float
    bars: tuple[Bar, ...]
    seconds: float


@dataclass(frozen=True)
class Chart:
    """A plan.

    Attributes:
        lanes: one a cluster.
        span: seconds that 100 per cent stand for.
        makespan: seconds until the last lane is done.
        bound: per cent at which no plan can be done earlier; None where that is not known.
    """

    lanes: tuple[Lane, ...]
    span: float
    makespan: float
    bound: float | None


def draw(
    clusters: Sequence[str],
    task_id: Sequence[str],
    cluster_id: Sequence[str],
    seconds: Floats,
    *,
    backlog: Mapping[str, float] | None = None,
    moved: Collection[str] = (),
    bound: float | None = None,
    span: float = 0.0,
) -> Chart:
    """The chart of a plan.

    Args:
        clusters: lanes, in order; those of the plan's clusters that are not among them follow.
        task_id, cluster_id, seconds: N tasks, where each runs and how long.
        backlog: cluster → seconds for which it is busy before.
        moved: tasks to tell apart.
        bound: seconds that no plan can undercut.
        span: seconds that the chart has at least, so that two charts share a scale.
    """
    names = [*clusters, *(name for name in dict.fromkeys(cluster_id) if name not in set(clusters))]
    own: dict[str, list[tuple[str, float]]] = {name: [] for name in names}
    for task, cluster, length in zip(task_id, cluster_id, seconds.tolist(), strict=True):
        own[cluster].append((task, length))
    waits = {name: (backlog or {}).get(name, 0.0) if own[name] else 0.0 for name in names}
    ends = {name: waits[name] + sum(length for _, length in own[name]) for name in names}
    makespan = max(ends.values(), default=0.0)
    whole = max(span if makespan <= span * (1 + 1e-9) else makespan, 1e-9)  # whoever adds up otherwise is off by a bit
    lanes = []
    for name in names:
        bars, at = [], waits[name]
        for k, (task, length) in enumerate(own[name]):
            kind = "moved" if task in moved else ("even", "odd")[k % 2]
            bars.append(Bar(100 * at / whole, 100 * length / whole, task, length, kind))
            at += length
        lanes.append(Lane(name, 100 * waits[name] / whole, tuple(bars), ends[name]))
    return Chart(tuple(lanes), whole, makespan, None if bound is None else min(100 * bound / whole, _LAST))
