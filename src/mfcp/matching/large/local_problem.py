"""What the local search works on: the pairs of use, what they cost at the prices, and the constraints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.matching.large.candidates import Candidates, Pricing, gather, rows_of
from mfcp.matching.problem import MatchingProblem

if TYPE_CHECKING:
    from mfcp.matching.large.annealing import Pairs, Plan, Terms

DEADLINES = 64  # levels of deadlines that are told apart; of more, a task is held to the next one down
SMALL = 100_000  # entries up to which every allowed pair is looked at, not only the candidates
TINY = 100  # entries up to which nothing is left out
FEW = 1000  # entries up to which tasks are coarse
NEAR = (0.15, 0.3)  # reduced cost, as a share of a task's own cost, up to which a pair is of use; with few entries
LEAST = 3  # pairs that a task keeps in any case
LONG = 0.5  # in M / N bounds: a pair that alone is further above the bound is of no use; more than the gap to expect
NONE = 1e300  # where there is no limit
COOLER = 0.25  # the unit of temperature is the objective per task of a round of a thousand, (1000 / N)^COOLER of it
DROP = 0.0095  # distance of the level below the best plan, with chains, in M^0.3 M / N of it


@dataclass(frozen=True)
class Setting:
    """What the search works on.

    Attributes:
        pairs, terms: of the compiled search.
        order: (N,) tasks, the most expensive first.
        floor: makespan that no plan is expected to be below.
        unit: of temperature, an objective.
        drop: relative distance of the level below the best plan, with chains.
        alone: whether the makespan is all that counts.
    """

    pairs: Pairs
    terms: Terms
    order: Ints
    floor: float
    unit: float
    drop: float
    alone: bool

    @property
    def clusters(self) -> int:
        """M."""
        return len(self.terms.backlog)

    @property
    def tasks(self) -> int:
        """N."""
        return len(self.pairs.start) - 1

    def empty(self) -> Plan:
        """A plan without tasks."""
        from mfcp.matching.large import annealing

        pairs, terms, M, N, P = self.pairs, self.terms, self.clusters, self.tasks, len(self.pairs.time)
        scalars = np.zeros(annealing.SCALARS)
        scalars[[annealing.BEST, annealing.LATEST, annealing.AIM]] = np.inf
        return annealing.Plan(
            own=np.full(N, -1),
            load=np.zeros(M),
            count=np.zeros(M),
            used=np.zeros(terms.limit.shape),
            strain=np.zeros(M),
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


def set_up(problem: MatchingProblem, pricing: Pricing, penalty: float | None) -> Setting:
    """The pairs of use, what they cost at the prices, and the constraints."""
    from mfcp.matching.large import annealing

    M, N = problem.clusters, problem.tasks
    weights, prices, candidates = problem.objective, pricing.around, pricing.candidates
    if M * N <= SMALL and candidates.cluster.shape[1] < M:
        candidates = _every(problem, candidates)
    elif weights.makespan and 0 < pricing.bound < np.inf:
        candidates = _with_fastest(problem, candidates, pricing.bound / weights.makespan)
    valid = candidates.cluster >= 0
    at = np.maximum(candidates.cluster, 0)
    seconds = np.where(valid, candidates.time, 0.0)
    backlog = np.zeros(M) if problem.backlog is None else problem.backlog.astype(np.float64)
    money = np.zeros(seconds.shape) if candidates.linear is None else candidates.linear
    linear = float((candidates.share * money).sum())
    busy = np.bincount(at.ravel(), (candidates.share * seconds).ravel(), minlength=M)
    zeta, factor = np.zeros((M, 0)), np.ones(M)
    if problem.zeta is not None:  # then the busy seconds depend on the plan, and are strain
        zeta = problem.zeta
        count = np.bincount(at.ravel(), candidates.share.ravel(), minlength=M)
        factor = zeta[np.arange(M), np.clip(count.round().astype(int), 1, N)]
        money = money - weights.total_time * seconds
        busy = busy * factor
    expected = float((busy + backlog)[busy > 0].max())
    floor, top = NONE, expected
    if weights.makespan:
        floor = top = (pricing.bound - linear) / weights.makespan
        if not 0.5 * expected < floor < np.inf:  # the bound was lost, or is not about the makespan
            floor, top = 0.5 * expected, expected
    worth = linear + (weights.makespan * floor if weights.makespan else 0.0) or 1.0 / NONE
    drop = DROP * M**1.3 / N

    own = (prices.seconds * factor)[at] * seconds + money
    price = own - (prices.reliability * candidates.reliability if penalty is None else 0.0)
    for r, row in enumerate(prices.rows):
        price = price + row[at] * candidates.use[r]
    price[~valid] = np.inf
    limit, scale, rank = _limits(problem, candidates, seconds, valid, backlog)
    wealth = np.where(valid, own, np.inf).min(axis=1)
    fits = valid.copy()
    for r in range(len(problem.capacities)):
        fits &= candidates.use[r] <= limit[r][at] * (1.0 + 1e-9)
    short = np.ones_like(valid)
    if M * N > TINY and weights.makespan:
        alone = np.where(valid, seconds * (zeta[at, 1] if problem.zeta is not None else 1.0) + backlog[at], np.inf)
        short = alone <= (1.0 + LONG * M / N) * max(floor, top)
    near = price - price.min(axis=1)[:, None] <= NEAR[M * N <= FEW] * np.maximum(worth / N, wealth)[:, None]
    ranked = price.argsort(axis=1, kind="stable")
    position = np.empty_like(ranked)
    np.put_along_axis(position, ranked, np.arange(price.shape[1])[None], axis=1)
    near |= (position < LEAST) | (candidates.share > 0.01)
    keep = _kept(valid, near, fits, short)

    order = np.where(keep, price, np.inf).argsort(axis=1, kind="stable")
    kept = np.take_along_axis(keep, order, axis=1)

    def pick(values: Floats) -> Floats:
        return np.take_along_axis(values, order, axis=1)[kept]

    share = np.where(keep, candidates.share, 0.0)
    lost = share.sum(axis=1) <= 0
    share[lost, order[lost, 0]] = 1.0
    need = float(problem.gamma) * N
    q = max(prices.reliability, 0.1 * worth / max(need, 1e-9 * N))
    many = keep.sum(axis=1)
    return Setting(
        pairs=annealing.Pairs(
            start=np.concatenate([[0], many.cumsum()]),
            cluster=np.take_along_axis(candidates.cluster, order, axis=1)[kept],
            time=pick(seconds),
            reliability=pick(candidates.reliability),
            price=pick(price),
            money=pick(money),
            use=np.array([pick(use) for use in candidates.use[: len(problem.capacities)]]).reshape(-1, many.sum()),
            rank=np.repeat(rank, many).astype(np.int32),
            share=pick(share / share.sum(axis=1)[:, None]),
        ),
        terms=annealing.Terms(
            makespan=weights.makespan,
            total_time=weights.total_time if problem.zeta is not None else 0.0,
            weight=np.maximum(prices.seconds, 0.05 * weights.makespan / M) * (floor if weights.makespan else 0.0),
            backlog=backlog,
            zeta=zeta,
            limit=limit,
            scale=scale,
            unit=worth / M,
            need=need,
            penalty=-1.0 if penalty is None else penalty,
            spring=q * q / (2.0 * max(drop * worth, 2.0 * worth / N)),
        ),
        order=np.argsort(-wealth, kind="stable"),
        floor=floor,
        unit=worth / N * (1000.0 / N) ** COOLER,
        drop=drop,
        alone=bool(weights.makespan) and not (weights.total_time or weights.cost) and penalty is None,
    )


def _with_fastest(problem: MatchingProblem, candidates: Candidates, floor: float) -> Candidates:
    """Tasks that fill over half of every candidate get their fastest clusters as candidates instead.

    At the prices they may look best where they alone would end too late.
    """
    settled = (candidates.cluster >= 0).sum(axis=1) == 1
    giants = np.flatnonzero((candidates.time.min(axis=1) > 0.5 * floor) & ~settled)
    if not len(giants):
        return candidates
    K = candidates.cluster.shape[1]
    fastest = problem.T[:, giants].argsort(axis=0, kind="stable")[:K].T
    cluster, share = candidates.cluster.copy(), candidates.share.copy()
    cluster[giants] = np.where(problem.allowed[fastest, giants[:, None]], fastest, -1)
    share[giants] = np.eye(K)[0]
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
    """The pairs to search: near ones that fit and are short; where a task has none, the most of that it can have."""
    keep = near
    for good in (fits & short, fits, short & valid, valid):
        keep = near & good
        lost = ~keep.any(axis=1)
        keep[lost] = (valid & good)[lost]
        if keep.any(axis=1).all():
            break
    return keep
