"""Matching for the expected cost under uncertain times and reliabilities.

The makespan of a plan is the maximum of M random loads and its reliability a random mean. The plan that
minimises E[makespan] / unit + price · E[max(0, gamma - reliability)] needs no margin and always exists; with
certain beliefs it is the plan of least penalised cost. E[max] and E[shortfall] are those of `normal`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, for_kernel
from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.normal import expected_maximum, expected_shortfall
from mfcp.matching.planning import FALLBACK_PRICE, QUICK_TASKS, quick, solve, solve_or_fall_back
from mfcp.matching.problem import SLACK, MatchingProblem
from mfcp.matching.ties import preferred, settled, total_time

_CHUNK = 1_000_000  # (rounds, plans) entries worked on at once
_FEW = 5000  # plans up to which all are looked at; that takes as long as the search
_KICKS = 600  # descents from perturbed plans, shared by the tasks of a round
_LEAST_KICKS, _PAIRED_KICKS = 12, 2400  # at 20 tasks more than 12 save 0.02 % of the cost and take twice the time
_STEP = 0.8  # distance of two targets, in deviations of the plan's reliability
_TARGETS = 3  # targets of reliability above gamma, at most


@dataclass(frozen=True)
class Moments:
    """Independent beliefs about a batch of rounds.

    Attributes:
        time, time_variance: (B, M, N) seconds, seconds².
        reliability, reliability_variance: (B, M, N).
        gamma: (B,) least mean reliability.
        allowed: (B, M, N).
        zeta: (M, N + 1) factors of parallel execution or None.
        backlog: (B, M) seconds for which a cluster is busy before it can start, or None.
    """

    time: Floats
    time_variance: Floats
    reliability: Floats
    reliability_variance: Floats
    gamma: Floats
    allowed: Bools
    zeta: Floats | None = None
    backlog: Floats | None = None

    def point(self) -> MatchingProblem:
        """The problem that takes the means for the truth."""
        return MatchingProblem(
            np.where(self.allowed, self.time, 1.0),
            self.reliability,
            np.clip(self.gamma, 0.0, 1.0),
            self.allowed,
            self.zeta,
            backlog=self.backlog,
        )

    def take(self, part: slice | Ints) -> Moments:
        """The rounds of a slice, or copies of those at some positions."""
        return Moments(
            self.time[part],
            self.time_variance[part],
            self.reliability[part],
            self.reliability_variance[part],
            self.gamma[part],
            self.allowed[part],
            self.zeta,
            None if self.backlog is None else self.backlog[part],
        )


@dataclass(frozen=True)
class ExpectedPlan:
    """Plans under uncertainty.

    Attributes:
        assignment: (B, N).
        cost: (B,) expected makespan / unit + price · expected shortfall.
        unit: (B,) seconds.
    """

    assignment: Ints
    cost: Floats
    unit: Floats


def least_expected_cost(moments: Moments, *, price: float) -> Ints:
    """(B, N) plans of least expected cost; see `expected_plans`."""
    return expected_plans(moments, price=price).assignment


def expected_plans(moments: Moments, *, price: float) -> ExpectedPlan:
    """Plans of least expected cost: all looked at when few, else local search over moves and swaps.

    The unit of the makespan is that of the point plan (`solve_or_fall_back` on the means), so that `price` keeps
    its meaning of makespans per unit of missing reliability. Rounds of more than 200 tasks start from the certified
    engine: with reliability's deviation small, the cost is F(gamma') / unit + price · E[shortfall] at the best
    gamma', with F, the least makespan at mean reliability gamma', convex in it.
    """
    point = moments.point()
    # Quickly: the search that follows improves the plan, and the means are uncertain anyway.
    first = solve_or_fall_back(point, quick(point))
    unit = first.makespan
    if point.clusters**point.tasks <= _FEW:
        plan, cost, _ = _best_of_all(moments, unit, price, None)
        return ExpectedPlan(plan, cost, unit)
    charge = np.full(len(unit), price)
    if point.tasks <= QUICK_TASKS:
        plan, cost, _ = _improved(moments, first.assignment, unit, charge, None)
        return ExpectedPlan(plan, cost, unit)
    each = [
        _at_targets(moments.take(slice(b, b + 1)), unit[b : b + 1], price, first.assignment[b : b + 1])
        for b in range(len(unit))
    ]
    return ExpectedPlan(np.concatenate([plan for plan, _ in each]), np.concatenate([cost for _, cost in each]), unit)


def cost_bound(moments: Moments, unit: Floats, *, price: float) -> Floats:
    """(B,) certified lower bound of the expected cost of any plan.

    By Jensen E[max load] >= max E[load] and E[shortfall] >= shortfall of the mean: the least cost is at least that of
    the priced problem that takes the means for the truth, whose engine certifies a bound.
    """
    bound: Floats = solve(moments.point(), price=price * unit).lower_bound / unit
    return bound


def least_expected_makespan(moments: Moments, *, alpha: float) -> tuple[Ints, Bools]:
    """(B, N) plans of least expected makespan with P(reliability >= gamma) >= 1 - alpha, and (B,) where that is met.

    Under the beliefs the reliability of a plan is taken as normal, with the mean u of its tasks' and the variance
    q² = Σ σ² / N²: the constraint is u - z q >= gamma with z the (1 - alpha) quantile. Where no plan that meets it is
    found, the plan of least E[makespan] + 20 · (least makespan of the means) · missing reliability, as
    `solve_or_fall_back` has it. All plans are looked at when few.

    Args:
        moments: beliefs.
        alpha: probability of missing gamma that is accepted, in (0, 0.5].
    """
    from scipy.special import ndtri

    quantile = float(-ndtri(alpha))
    point = moments.point()
    loose = solve(point.at(0.0))
    if point.clusters**point.tasks <= _FEW:
        plan, _, held = _best_of_all(moments, loose.makespan, FALLBACK_PRICE, quantile)
        return plan, held
    spread = np.sqrt(_picked(moments.reliability_variance, loose.assignment).sum(axis=1)) / point.tasks
    target = np.minimum(point.gamma + quantile * spread, point.reachable_gamma())
    start = solve_or_fall_back(point.at(target)).assignment
    charge = np.full(len(target), FALLBACK_PRICE)
    plan, _, held = _improved(moments, start, loose.makespan, charge, quantile)
    return plan, held


def _best_of_all(moments: Moments, unit: Floats, price: float, quantile: float | None) -> tuple[Ints, Floats, Bools]:
    """`_improved`, with every plan looked at."""
    plans, indicator = all_plans(*moments.time.shape[1:])
    best, least, held = np.empty(len(unit), np.int64), np.empty(len(unit)), np.ones(len(unit), bool)
    step = max(1, _CHUNK // len(plans))
    for low in range(0, len(unit), step):
        part = slice(low, low + step)
        rounds = moments.take(part)
        totals = [sum_over_tasks(values, indicator) for values in channels(rounds)]
        span, short = score(totals, rounds, unit[part], quantile)
        cost = span + price * short
        if quantile is not None:
            meets = (short <= SLACK) & np.isfinite(span)
            held[part] = meets.any(axis=1)
            cost = np.where(meets.any(axis=1, keepdims=True), np.where(meets, span, np.inf), cost)
        reached = totals[2].sum(axis=1) / plans.shape[1]
        best[part] = preferred(cost, reached, total_time(rounds.point(), plans))
        least[part] = np.take_along_axis(cost, best[part, None], axis=1)[:, 0]
    return plans[best], least, held


def _at_targets(moments: Moments, unit: Floats, price: float, first: Ints) -> tuple[Ints, Floats]:
    """Plan (1, N) and cost (1,) of one round of many tasks: the best of plans at several targets, each polished.

    The least cost at a target is convex in it. Targets rise from gamma, where `first` is, until one costs more than
    the last; where the first rise does not pay, neither does another, and the plan that pays the price for what the
    means lack is tried instead.
    """
    point, charge = moments.point(), np.array([price])
    best, least, _ = _improved(moments, first, unit, charge, None)
    deviation = float(np.sqrt(_picked(moments.reliability_variance, best).sum())) / point.tasks
    state, rising = None, False
    for step in range(1, _TARGETS + 1 if deviation > 0 else 1):
        target = point.at(np.minimum(point.gamma + _STEP * step * deviation, point.reachable_gamma() - SLACK))
        solution = solve(target, quick(target), start=state)
        if solution.assignment[0, 0] < 0:
            break
        plan, cost, _ = _improved(moments, solution.assignment, unit, charge, None)
        if cost[0] >= least[0]:
            break
        best, least, state, rising = plan, cost, solution.state, True
    if not rising:
        priced = solve(point, quick(point), price=price * unit)
        plan, cost, _ = _improved(moments, priced.assignment, unit, charge, None)
        if cost[0] < least[0]:
            best, least = plan, cost
    return best, least


def planned_cost(moments: Moments, plan: Ints, unit: Floats, *, price: float) -> Floats:
    """(B,) expected makespan / unit + price · expected shortfall of plans (B, N)."""
    chosen = (plan[:, None] == np.arange(moments.time.shape[1])[:, None]).astype(np.float64)
    totals = [np.where(chosen > 0, values, 0.0).sum(axis=-1)[..., None] for values in channels(moments)]
    span, short = score(totals, moments, unit, None)
    result: Floats = (span + price * short)[:, 0]
    return result


def descended(moments: Moments, start: Ints, unit: Floats, *, price: float, kicks: int = 0) -> Floats:
    """(B,) costs of the plans that moves and swaps from `start` (B, N) lead to; never above those of `start`.

    Args:
        moments: beliefs.
        start: plans.
        unit: (B,) seconds of a makespan.
        price: of missing reliability, in makespans per unit.
        kicks: further descents, from perturbed plans.
    """
    return _improved(moments, start, unit, np.full(len(unit), price), None, kicks)[1]


def _improved(
    moments: Moments, start: Ints, unit: Floats, charge: Floats, quantile: float | None, kicks: int | None = None
) -> tuple[Ints, Floats, Bools]:
    """Plans (B, N), costs (B,) and whether the quantile's constraint is met (B,), by the compiled search."""
    from mfcp.matching.kernels.expected_cost import improve_range
    from mfcp.matching.relaxed.compiled import over_rounds

    B, M, N = moments.time.shape
    given = (*kernel_inputs(moments), np.array(moments.gamma, np.float64), np.array(unit, np.float64))
    plan, cost, held = np.ascontiguousarray(start, np.int64).copy(), np.empty(B), np.zeros(B, bool)
    kicks = min(_KICKS // N, max(_LEAST_KICKS, _PAIRED_KICKS // N**2)) if kicks is None else kicks

    def work(first: int, last: int) -> None:
        asked = -1.0 if quantile is None else quantile
        improve_range(*given, asked, charge, kicks, first, last, plan, cost, held)

    over_rounds(work, B, 100 * M * N)
    if not (moments.time_variance.any() or moments.reliability_variance.any()):
        plan = settled(moments.point(), plan)  # else E[max] feels the load of every cluster, and no two plans are equal
    return plan, cost, held


def kernel_inputs(moments: Moments) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """What `kernels.expected_cost` takes: times, their variances, reliabilities and theirs; zeta; backlog.

    The first four are (B, N, M); where a pair is not allowed the time is inf and the rest 0. zeta is (0, 0) where there
    is none; backlog is (B, M).
    """
    backlog = 0.0 if moments.backlog is None else moments.backlog
    allowed = np.broadcast_to(moments.allowed, moments.time.shape).swapaxes(1, 2)

    def turned(values: Floats, shut: float) -> Floats:
        return for_kernel(np.where(allowed, np.swapaxes(values, 1, 2), shut))

    return (
        turned(moments.time, np.inf),
        turned(moments.time_variance, 0.0),
        turned(moments.reliability, 0.0),
        turned(moments.reliability_variance, 0.0),
        np.zeros((0, 0)) if moments.zeta is None else for_kernel(moments.zeta),
        np.zeros(moments.time.shape[:2]) + backlog,
    )


def _picked(values: Floats, plan: Ints) -> Floats:
    """(B, N) entries of (B, M, N) that a plan picks."""
    picked: Floats = np.take_along_axis(values, plan[:, None], axis=1)[:, 0]
    return picked


def sum_over_tasks(values: Floats, indicator: Floats) -> Floats:
    """(B, M, P) sums of (B, M, N) values over the tasks that each plan (M, N, P) puts on each cluster."""
    return np.stack([values[:, i] @ indicator[i] for i in range(values.shape[1])], axis=1)


def channels(moments: Moments) -> list[Floats]:
    """What a plan sums per cluster: mean time, its variance, reliability, its variance, tasks, forbidden pairs."""
    return [
        np.where(moments.allowed, moments.time, 0.0),
        np.where(moments.allowed, moments.time_variance, 0.0),
        moments.reliability,
        moments.reliability_variance,
        np.ones(moments.time.shape),
        (~moments.allowed).astype(np.float64),
    ]


def score(totals: list[Floats], moments: Moments, unit: Floats, quantile: float | None) -> tuple[Floats, Floats]:
    """E[makespan] / unit and the shortfall (B, P) from the per-cluster totals (B, M, P) of `channels`."""
    mean, variance, reliable, reliable_variance, count, forbidden = totals
    tasks = moments.time.shape[-1]
    u, variance_of_u = reliable.sum(axis=1) / tasks, reliable_variance.sum(axis=1) / tasks**2
    gamma = moments.gamma[:, None]
    if quantile is None:
        short = expected_shortfall(u - gamma, np.sqrt(variance_of_u))
    else:
        short = np.maximum(gamma - u + quantile * np.sqrt(variance_of_u), 0.0)
    span = expected_span(mean, variance, count, moments.zeta, moments.backlog) / unit[:, None]
    return np.where(forbidden.sum(axis=1) > 0, np.inf, span), short


def expected_span(mean: Floats, variance: Floats, count: Floats, zeta: Floats | None, backlog: Floats | None) -> Floats:
    """(B, P) E[makespan] in seconds, from the totals (B, M, P) of tasks' times, their variances and their number."""
    if zeta is not None:
        factor = np.stack([zeta[i][count[:, i].astype(np.int64)] for i in range(count.shape[1])], axis=1)
        mean, variance = mean * factor, variance * factor**2
    if backlog is not None:
        mean = mean + np.where(count > 0, backlog[:, :, None], 0.0)
    span: Floats = expected_maximum(mean, variance)
    return span
