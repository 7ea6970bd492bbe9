"""What the local search works on: the pairs of use, what they cost at the prices, and the constraints."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.matching.large import annealing
from mfcp.matching.large.candidates import Candidates, Prices, Pricing, gather, rows_of
from mfcp.matching.problem import MatchingProblem

DEADLINES = 64  # distinct deadlines at most; with more, a task is held to the next lower one that is kept
# Rounds by their number of entries M N: up to SMALL every allowed pair is looked at and not only the candidates, and up
# to FEW tasks are coarse.
SMALL = 100_000
FEW = 1000
NEAR = 0.2  # largest reduced cost of a pair that is kept, as a share of its task's cost
LEAST = 3  # pairs that a task keeps in any case
LONG = 0.5  # a pair that alone ends so many times M / N of the bound above it is left out
NONE = 1e300  # where there is no limit
COOLER = 0.25  # the unit of temperature is the objective per task, times (1000 / N)^COOLER
DROP = 1.5e-4  # with chains the level lies so much of the best plan below it


@dataclass(frozen=True)
class LocalProblem:
    """What the search works on.

    Attributes:
        pairs, terms: of the compiled search.
        order: (N,) tasks, the most expensive first.
        floor: makespan that no plan is expected to be below.
        unit: of temperature, an objective.
        alone: whether the makespan is all that counts.
    """

    pairs: annealing.Pairs
    terms: annealing.Terms
    order: Ints
    floor: float
    unit: float
    alone: bool

    @property
    def clusters(self) -> int:
        """M."""
        return len(self.terms.backlog)

    @property
    def tasks(self) -> int:
        """N."""
        return len(self.pairs.start) - 1

    def empty(self) -> annealing.PlanState:
        """A plan without tasks."""
        pairs, terms, M, N, P = self.pairs, self.terms, self.clusters, self.tasks, len(self.pairs.time)
        scalars = np.zeros(annealing.SCALARS)
        scalars[[annealing.BEST, annealing.LATEST, annealing.AIM]] = np.inf
        return annealing.PlanState(
            own=np.full(N, -1),
            load=np.zeros(M),
            count=np.zeros(M),
            used=np.zeros(terms.limit.shape),
            strain=np.zeros(M),
            weight=terms.weight.copy(),
            over=np.zeros(M, bool),
            best=np.full(N, -1),
            scalars=scalars,
            begin=np.concatenate([[0], np.bincount(pairs.cluster, minlength=M).cumsum()]),
            member=np.zeros(P, np.int32),
            time=np.zeros(P),
            step=np.zeros(P),
            size=np.zeros(M, np.int32),
            place=np.full(N, -1),
            moved=np.zeros(annealing.DEEP, np.int64),
            before=np.zeros(annealing.DEEP, np.int64),
        )


def local_problem_of(problem: MatchingProblem, pricing: Pricing, penalty: float | None) -> LocalProblem:
    """Choose the pairs that the search looks at, and put a price on each.

    Args:
        problem: of one round, (M, N).
        pricing: its prices, bound and candidates.
        penalty: price of a missing unit of summed reliability, or None where reliability is a constraint.
    """
    M, N = problem.clusters, problem.tasks
    candidates = pricing.candidates
    if M * N <= SMALL and candidates.cluster.shape[1] < M:
        candidates = _every(problem, candidates)
    elif problem.objective.makespan and 0 < pricing.bound < np.inf:
        candidates = _with_fastest(problem, candidates, pricing.bound / problem.objective.makespan)
    table = _priced(problem, candidates, pricing.around, penalty)
    scales = _scales(problem, pricing, table)
    limit, scale, rank = _limits(problem, candidates, table.seconds, table.valid, table.backlog)
    keep = _useful(problem, table, scales, limit)
    weights = problem.objective
    need = float(problem.gamma) * N
    q = max(pricing.around.reliability, 0.1 * scales.objective / max(need, 1e-9 * N))
    return LocalProblem(
        pairs=_pairs(table, keep, rank, len(problem.capacities)),
        terms=annealing.Terms(
            makespan=weights.makespan,
            total_time=weights.total_time if problem.zeta is not None else 0.0,
            weight=np.maximum(pricing.around.seconds, 0.05 * weights.makespan / M)
            * (scales.floor if weights.makespan else 0.0),
            backlog=table.backlog,
            zeta=table.zeta,
            limit=limit,
            scale=scale,
            unit=scales.objective / M,
            need=need,
            penalty=-1.0 if penalty is None else penalty,
            spring=q * q / (2.0 * max(DROP * scales.objective, 2.0 * scales.objective / N)),
        ),
        order=np.argsort(-table.least, kind="stable"),
        floor=scales.floor,
        unit=scales.objective / N * (1000.0 / N) ** COOLER,
        alone=bool(weights.makespan) and not (weights.total_time or weights.cost) and penalty is None,
    )


@dataclass(frozen=True)
class _Table:
    """Every candidate of every task at the prices, (N, W).

    Attributes:
        candidates: whose `share` the relaxation gives.
        valid: where there is a candidate.
        at: its cluster; 0 where there is none.
        seconds: its time; 0 where there is none.
        money: its part of the objective besides the makespan.
        cost: seconds at the prices, and money.
        price: the same with the prices of all constraints; inf where there is none.
        least: (N,) cost of the cheapest candidate.
        backlog: (M,) seconds.
        busy: (M,) seconds of each cluster under the shares.
        zeta: (M, N + 1) or (M, 0) where tasks run one after another.
    """

    candidates: Candidates
    valid: Bools
    at: Ints
    seconds: Floats
    money: Floats
    cost: Floats
    price: Floats
    least: Floats
    backlog: Floats
    busy: Floats
    zeta: Floats


def _priced(problem: MatchingProblem, candidates: Candidates, prices: Prices, penalty: float | None) -> _Table:
    M, N = problem.clusters, problem.tasks
    valid, at = candidates.cluster >= 0, np.maximum(candidates.cluster, 0)
    seconds = np.where(valid, candidates.time, 0.0)
    backlog = np.zeros(M) if problem.backlog is None else problem.backlog.astype(np.float64)
    money = np.zeros(seconds.shape) if candidates.linear is None else candidates.linear
    busy = np.bincount(at.ravel(), (candidates.share * seconds).ravel(), minlength=M).astype(np.float64)
    zeta, factor = np.zeros((M, 0)), np.ones(M)
    if problem.zeta is not None:  # then the busy seconds depend on the plan, and are strain
        zeta = problem.zeta
        count = np.bincount(at.ravel(), candidates.share.ravel(), minlength=M)
        factor = zeta[np.arange(M), np.clip(count.round().astype(int), 1, N)]
        money = money - problem.objective.total_time * seconds
        busy = busy * factor
    cost = (prices.seconds * factor)[at] * seconds + money
    price = cost - (prices.reliability * candidates.reliability if penalty is None else 0.0)
    for r, row in enumerate(prices.rows):
        price = price + row[at] * candidates.use[r]
    price[~valid] = np.inf
    least = np.where(valid, cost, np.inf).min(axis=1)
    return _Table(candidates, valid, at, seconds, money, cost, price, least, backlog, busy, zeta)


@dataclass(frozen=True)
class _Scales:
    """Sizes to measure against.

    Attributes:
        floor: makespan that no plan is expected to be below; `NONE` where the makespan does not count.
        top: makespan to expect of a good plan.
        objective: value to expect of a good plan, not 0.
    """

    floor: float
    top: float
    objective: float


def _scales(problem: MatchingProblem, pricing: Pricing, table: _Table) -> _Scales:
    weight = problem.objective.makespan
    linear = float((table.candidates.share * _linear(table)).sum())
    expected = float((table.busy + table.backlog)[table.busy > 0].max())
    floor, top = NONE, expected
    if weight:
        floor = top = (pricing.bound - linear) / weight
        if not 0.5 * expected < floor < np.inf:  # the bound was lost, or is not about the makespan
            floor, top = 0.5 * expected, expected
    return _Scales(floor, top, linear + (weight * floor if weight else 0.0) or 1.0 / NONE)


def _linear(table: _Table) -> Floats:
    """(N, W) what each candidate adds to the objective besides the makespan, before parallel execution."""
    return np.zeros(table.seconds.shape) if table.candidates.linear is None else table.candidates.linear


def _useful(problem: MatchingProblem, table: _Table, scales: _Scales, limit: Floats) -> Bools:
    """(N, W) the pairs that the search looks at: cheap ones, within every limit, not longer than a good plan."""
    M, N = problem.clusters, problem.tasks
    fits = table.valid.copy()
    for r in range(len(problem.capacities)):
        fits &= table.candidates.use[r] <= limit[r][table.at] * (1.0 + 1e-9)
    short = np.ones_like(table.valid)
    if problem.objective.makespan:
        factor = table.zeta[table.at, 1] if problem.zeta is not None else 1.0
        alone = np.where(table.valid, table.seconds * factor + table.backlog[table.at], np.inf)
        short = alone <= (1.0 + LONG * M / N) * max(scales.floor, scales.top)
    price = table.price
    most = NEAR * np.maximum(scales.objective / N, table.least)
    near = price - price.min(axis=1)[:, None] <= most[:, None]
    position = np.empty(price.shape, np.int64)
    ranked = price.argsort(axis=1, kind="stable")
    np.put_along_axis(position, ranked, np.arange(price.shape[1])[None], axis=1)
    near |= (position < LEAST) | (table.candidates.share > 0.01)
    return _kept(table.valid, near, fits, short)


def _pairs(table: _Table, keep: Bools, rank: Ints, capacities: int) -> annealing.Pairs:
    """The pairs to search, task by task, cheapest first.

    A task whose shares are all on pairs that are left out starts on its cheapest pair.
    """
    order = np.where(keep, table.price, np.inf).argsort(axis=1, kind="stable")
    kept = np.take_along_axis(keep, order, axis=1)

    def pick(values: Floats) -> Floats:
        return np.take_along_axis(values, order, axis=1)[kept]

    candidates = table.candidates
    share = np.where(keep, candidates.share, 0.0)
    lost = share.sum(axis=1) <= 0
    share[lost, order[lost, 0]] = 1.0
    many = keep.sum(axis=1)
    return annealing.Pairs(
        start=np.concatenate([[0], many.cumsum()]),
        cluster=np.take_along_axis(candidates.cluster, order, axis=1)[kept],
        time=pick(table.seconds),
        reliability=pick(candidates.reliability),
        price=pick(table.price),
        money=pick(table.money),
        use=np.array([pick(use) for use in candidates.use[:capacities]]).reshape(-1, many.sum()),
        rank=np.repeat(rank, many).astype(np.int32),
        share=pick(share / share.sum(axis=1)[:, None]),
    )


def _with_fastest(problem: MatchingProblem, candidates: Candidates, floor: float) -> Candidates:
    """Tasks that fill over half of every candidate get their fastest clusters as candidates instead.

    At the prices they may look best where they alone would end too late.
    """
    fixed = (candidates.cluster >= 0).sum(axis=1) == 1
    long_tasks = np.flatnonzero((candidates.time.min(axis=1) > 0.5 * floor) & ~fixed)
    if not len(long_tasks):
        return candidates
    K = candidates.cluster.shape[1]
    fastest = problem.T[:, long_tasks].argsort(axis=0, kind="stable")[:K].T
    cluster, share = candidates.cluster.copy(), candidates.share.copy()
    cluster[long_tasks] = np.where(problem.allowed[fastest, long_tasks[:, None]], fastest, -1)
    share[long_tasks] = np.eye(K)[0]
    return replace(gather(problem, rows_of(problem), cluster), share=share)


def _every(problem: MatchingProblem, candidates: Candidates) -> Candidates:
    """Every allowed cluster of every task as candidates, with the same shares."""
    M, N = problem.clusters, problem.tasks
    cluster = np.where(problem.allowed.T, np.arange(M, dtype=np.int32), np.int32(-1))
    share = np.zeros((N, M))
    valid = candidates.cluster >= 0
    np.add.at(share, (np.nonzero(valid)[0], candidates.cluster[valid]), candidates.share[valid])
    return replace(gather(problem, rows_of(problem), cluster), share=share)


def _limits(
    problem: MatchingProblem, candidates: Candidates, seconds: Floats, valid: Bools, backlog: Floats
) -> tuple[Floats, Floats, Ints]:
    """Limits of capacities and deadlines (C + L, M), their scales, and the first deadline that counts each task."""
    limits = [capacity.limit for capacity in problem.capacities]
    uses = [float(use[valid].mean()) for use, _ in zip(candidates.use, limits, strict=False)]
    rank = np.zeros(problem.tasks, np.int64)
    if problem.deadline is not None:
        finite = np.isfinite(problem.deadline)
        due = np.unique(problem.deadline[finite])
        if len(due) > DEADLINES:
            due = due[np.linspace(0, len(due) - 1, DEADLINES).round().astype(int)]
        rank = np.where(finite, np.searchsorted(due, problem.deadline, side="right") - 1, len(due))
        limits += [np.maximum(at - backlog, 0.0) for at in due]
        uses += [float(seconds[valid].mean())] * len(due)
    limit = np.array(limits, np.float64).reshape(len(limits), problem.clusters)
    limit = np.where(np.isfinite(limit), limit, NONE)
    return limit, limit + np.array(uses).reshape(-1, 1) + 1.0 / NONE, rank


def _kept(valid: Bools, near: Bools, fits: Bools, short: Bools) -> Bools:
    """The pairs to search: cheap ones within every limit and short enough; where a task has none, these are relaxed."""
    keep = near
    for good in (fits & short, fits, short & valid, valid):
        keep = near & good
        lost = ~keep.any(axis=1)
        keep[lost] = (valid & good)[lost]
        if keep.any(axis=1).all():
            break
    return keep
