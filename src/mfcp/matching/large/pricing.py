"""Prices of one round's constraints, the bound they certify, and the few clusters per task worth a look.

The linear relaxation lets a task be split. With the makespan's weight w, B rows per cluster (the makespan's and those
of `rows_of`) and the reliability row, it is

    min w θ + Σ c_ij x_ij,   load_i <= θ,   Σ_j use_rij x_ij <= limit_ri,   Σ a_ij x_ij >= gamma N,   Σ_i x_ij = 1,

and any prices p >= 0 with Σ p = w, π >= 0, q >= 0 certify (weak duality)

    Σ_j min_i (p_i t_ij + c_ij + Σ_r π_ri use_rij - q a_ij) + q gamma N - Σ π limit <= every plan's objective.

Column generation [Gondzio2013]_: a primal-dual interior point method on W candidates per task, whose prices stay
central and so do not swing; a dense pass over all clusters, which certifies the bound and proposes new candidates; and
so on until the two meet. Before, the same on a sample of tasks, drawn by cost, so that giants are always in it.

Everything about tasks lives in shards, which see prices only; all sums over shards are taken in their order.

.. [Gondzio2013] Gondzio, González-Brevis, Munari, EJOR 224, 2013, doi:10.1016/j.ejor.2012.07.024.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from mfcp.matching.large.candidates import Prices, Pricing, gather, rows_of
from mfcp.matching.large.interior import Progress, interior
from mfcp.matching.large.kinds import alike, dealt
from mfcp.matching.large.relaxation import TINY, Relaxation, draw, guess, relax
from mfcp.matching.large.shards import Shards, Threads
from mfcp.matching.problem import SLACK, Floats, MatchingProblem

_WIDE = 8.0  # duality gap to start with, in units of how far off prices are: few of a task's candidates matter
_ROUNDS = 12  # dense passes at most
_BOX = 4.0  # factor that prices may move by in the first solve
_VALUES = 6  # relaxations beyond the first, at most
_CHEAP = 10**6  # entries up to which accuracy takes no time to speak of
_EPS = float(np.finfo(np.float64).eps)


def price(
    problem: MatchingProblem,
    *,
    candidates: int = 10,
    tolerance: float | None = None,
    time_limit: float,
    start: Prices | None = None,
    penalty: float | None = None,
    place: Callable[[Relaxation, int], Shards] = Threads,
) -> Pricing:
    """Prices, certified bound and candidates of one round.

    No plan with an objective below V uses a pair that alone takes longer than V, nor a cluster that is busy for longer,
    and each cluster's load is at most 1 - backlog / V of the makespan. With that in the relaxation, min(V, its bound)
    is a bound, whatever V is; a few are tried where backlog or giant tasks make it worth the time. Tasks that are equal
    in everything are one task of the relaxation, whose mass is their number.

    Args:
        problem: one round (M, N).
        candidates: clusters per task, at most.
        tolerance: relative gap between the bound and the relaxation that is good enough; by default far below what the
            integer plan loses anyway, which grows with M / N.
        time_limit: seconds, looked at between steps.
        start: prices of a similar round, of the same clusters and rows; saves the sample.
        penalty: price of a unit of missing Σ a, instead of the constraint.
        place: where the shards of a relaxation with so many candidates are kept.
    """
    begun = time.monotonic()
    deadline = begun + time_limit
    stats = {"passes": 0.0, "sample_passes": 0.0, "steps": 0.0, "relaxations": 0.0}
    reachable = float(problem.reachable_gamma())
    possible = penalty is not None or reachable >= problem.gamma - SLACK
    round_ = problem if possible else problem.at(reachable)

    kinds = alike(problem)
    width = candidates
    if kinds is not None:
        width = min(problem.clusters, candidates * round((problem.tasks / (1 + kinds.max())) ** 0.5))

    def solve(value: float, factor: Floats, known: Floats | None, off: float) -> tuple[Relaxation, Shards, Progress]:
        data = relax(round_, factor, penalty, value)
        if kinds is not None:
            first, many = np.unique(kinds, return_index=True, return_counts=True)[1:]
            data = data.take(first, many.astype(np.float64))
        size = max(8 * problem.clusters, 2000)
        vector = guess(data) if known is None else known
        if known is None and 3 * size <= len(data.mass):
            sample = draw(data, vector, size, reachable * problem.tasks)
            found = generate(
                sample, Threads(sample, width), vector, width=width, tolerance=1e-2, off=1.0, deadline=deadline,
                floor=floor,
            )  # fmt: skip
            vector, off = (found.vector, 0.05) if np.isfinite(found.value) else (found.best, 1.0)
            stats["sample_passes"] += found.passes
            stats["steps"] += found.steps
        shards = place(data, width)
        found = generate(data, shards, vector, width=width, tolerance=wanted, off=off, deadline=deadline, floor=floor)
        stats["passes"] += found.passes
        stats["steps"] += found.steps
        stats["relaxations"] += 1
        return data, shards, found

    least, typical = _factors(problem)
    longest, linear = _alone(problem, least)
    weight = problem.objective.makespan
    floor = weight * longest + linear
    wanted = _tolerance(problem) if tolerance is None else tolerance
    known = None
    if start is not None:
        known = relax(round_, least, penalty, np.inf).vector(start)
    data, shards, found = solve(np.inf, least, known, 1.0 if known is None else 0.05)
    certified = max(found.bound, floor)
    giant = 0.5 * found.bound < weight * longest < 1.2 * found.bound
    if found.bound < np.inf and (problem.backlog is not None or giant):
        high, growth = np.inf, 0.05 if problem.backlog is not None else 0.001
        for _ in range(_VALUES):
            if high - certified <= 1e-3 * abs(certified) or time.monotonic() > deadline:
                break
            value = 0.5 * (certified + high) if np.isfinite(high) else certified + growth * abs(certified)
            growth *= 4.0
            trial, its_shards, tried = solve(value, least, found.best, 0.01)
            if tried.bound < value:
                high = value
            if min(value, tried.bound) > certified:
                certified = min(value, tried.bound)
                if np.isfinite(tried.value):
                    data, shards, found = trial, its_shards, tried
    if not possible or _impossible(data, shards, found):
        certified = np.inf
    if not np.allclose(typical / typical[0], least / least[0]):
        data, shards, found = solve(np.inf, typical, found.best, 0.1)
    plans = shards.each("plan")
    cluster, share = (np.concatenate(parts) for parts in zip(*plans, strict=True))
    if kinds is not None:
        cluster, share = dealt(cluster, share, kinds, candidates)
    chosen = replace(gather(problem, rows_of(problem), cluster), share=share)
    stats |= {"value": found.value, "seconds": time.monotonic() - begun}
    return Pricing(data.named(found.best), certified, chosen, stats)


def generate(
    data: Relaxation, shards: Shards, vector: Floats, *, width: int, tolerance: float, off: float, deadline: float,
    floor: float,
) -> Progress:  # fmt: skip
    """Column generation from prices to a gap of `tolerance`, or to a relaxation not above a bound known otherwise.

    `off` is how far off the start may be, relative; `floor` is that bound.

    The factor that prices may move by grows from solve to solve: at first, a cluster that is nobody's candidate must
    not become so cheap that it is everybody's next time.
    """
    limits, edge = data.limits()
    vector = np.maximum(vector, 0.0)
    if data.weight > 0:
        vector[edge > 0] *= data.weight / vector[edge > 0].sum()
    vector[-1] = min(vector[-1], data.penalty)
    found = Progress(vector, vector)
    for attempt in range(_ROUNDS):
        noise = float(np.clip(2.0 * off, 0.01, 0.5))
        total = reduce(add, shards.each("price", found.vector, noise, 2 if off > 0.01 else 1))
        found.passes += 1
        bound = _certified(data, found.vector, limits, total)
        if bound > found.bound:
            found.bound, found.best = bound, found.vector
        gap = (found.value - found.bound) / max(abs(found.value), data.unit) if np.isfinite(found.value) else np.inf
        if gap <= tolerance or found.value <= floor or bound == np.inf or time.monotonic() > deadline:
            break
        if np.isfinite(gap):
            off = min(off, max(gap, tolerance))
        apart = 1.0 - max(found.bound, 0.0) / max(floor, TINY)  # prices far below another bound need not be exact
        enough = max(0.3 * tolerance, 0.02 * off, min(0.1 * apart, 0.03))
        interior(
            data, shards, found, width=min(width, len(data.T)), box=_BOX ** (attempt + 1), deadline=deadline,
            gap=_WIDE * off * max(abs(found.bound), data.unit), tolerance=enough,
        )  # fmt: skip
        if not np.isfinite(found.value) and floor > 2.0 * found.bound:
            break  # few candidates cannot share a task that is longer than the rest of the round: any prices will do
    return found


def _certified(data: Relaxation, vector: Floats, limits: Floats, total: Floats) -> float:
    """The bound of a dense pass, less what rounding can have added."""
    if total[0] == np.inf:  # a task without a cluster
        return np.inf
    parts = vector * limits
    size = total[1] + np.abs(parts).sum()
    return float(total[0] - parts.sum() - (len(data.mass) + len(vector) + 16) * _EPS * size)


def _tolerance(problem: MatchingProblem) -> float:
    if problem.T.size <= _CHEAP:
        return 1e-4
    return float(np.clip(0.1 * problem.clusters / problem.tasks, 1e-4, 1e-3))


def _factors(problem: MatchingProblem) -> tuple[Floats, Floats]:
    """(M,) factor of parallel execution at its least, for bounds, and with an equal share of the tasks."""
    if problem.zeta is None:
        return np.ones(problem.clusters), np.ones(problem.clusters)
    even = max(1, round(problem.tasks / problem.clusters))
    return problem.zeta[:, 1:].min(axis=1), problem.zeta[:, even]


def _alone(problem: MatchingProblem, least: Floats) -> tuple[float, float]:
    """Seconds until the worst task is done where that is earliest, and Σ_j of the least linear objective."""
    weights = problem.objective
    wait = None if problem.backlog is None else problem.backlog[:, None]
    longest = linear = 0.0
    for low in range(0, problem.tasks, 4096):
        part = slice(low, low + 4096)
        T = problem.T[:, part] if problem.zeta is None else least[:, None] * problem.T[:, part]
        longest = max(longest, float((T if wait is None else T + wait).min(axis=0).max()))
        if not weights.total_time and not weights.cost:
            continue
        parts = weights.total_time * T if weights.total_time else np.where(np.isfinite(T), 0.0, np.inf)
        if weights.cost and problem.cost is not None:
            parts = np.where(np.isfinite(T), parts + weights.cost * problem.cost[:, part], np.inf)
        linear += float(parts.min(axis=0).sum())
    safe = 1.0 - (4 + problem.tasks) * _EPS
    return longest * safe, linear * safe


def _impossible(data: Relaxation, shards: Shards, found: Progress) -> bool:
    """Whether prices certify more than any plan can cost: the constraints cannot be met."""
    if np.isfinite(found.value) or not data.rows:
        return False
    each = data.weight * data.speed + data.hourly
    most = np.zeros(len(data.mass))
    for i, seconds in enumerate(data.T):
        cost = each[i] * np.where(np.isfinite(seconds), seconds, 0.0)
        if data.money is not None:
            cost += np.where(np.isfinite(seconds), data.money[i], 0.0)
        most = np.maximum(most, cost)
    limits, edge = data.limits()
    for scale in (1.0, 1e2, 1e4, 1e6):
        ray = np.where(edge > 0, found.best, np.minimum(scale * found.best, 1e100))
        ray[-1] = min(ray[-1], data.penalty)
        total = reduce(add, shards.each("price", ray, 0.0, 0))
        if _certified(data, ray, limits, total) > 2.0 * (
            data.mass @ most + min(data.penalty, 1e100) * data.need * (data.penalty < np.inf)
        ):
            return True
    return False
