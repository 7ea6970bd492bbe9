"""The integer half of matching at scale: a plan rounded at the prices, annealed, then worked on by ejection chains.

For prices p, q that certify the bound LB, every plan with makespan θ (weight w) satisfies

    w θ - LB = Σ_j (reduced cost of j's cluster)  +  Σ_i p_i (θ - load_i)  +  q (Σ_j a_j - gamma N),

so a plan is near the bound if its tasks run where they are nearly cheapest, its clusters end nearly together and it
is no more reliable than asked. Few pairs are nearly cheapest; choosing among them is a balancing problem, in which a
single move is far coarser than the gap asked for, and chains of moves are as fine as their number.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from mfcp.matching.large.candidates import Candidates, Pricing, gather, rows_of
from mfcp.matching.problem import Bools, Floats, Ints, MatchingProblem, violations

if TYPE_CHECKING:
    from mfcp.matching.large.moves import Pairs, Plan, Terms

DEADLINES = 64  # levels of deadlines that are told apart; of more, a task is held to the next one down
SMALL = 100_000  # entries up to which every allowed pair is looked at, not only the candidates
TINY = 100  # entries up to which nothing is left out and annealing starts again at several temperatures
NEAR = 0.15  # reduced cost, as a share of a task's own cost, up to which a pair is of use
LEAST = 3  # pairs that a task keeps in any case
LONG = 0.5  # in M / N bounds: a pair that alone is further above the bound is of no use; more than the gap to expect
NONE = 1e300  # where there is no limit

# The two phases, annealing by single moves, then by chains near the best plan: temperature, in units of the objective
# per task of a round of a thousand (of N tasks, (1000 / N)^COOLER of it), and stiffness, first to last.
COOLER = 0.25
WARM = (0.03, 0.003, 250.0, 5000.0)
CHAINS = (0.02, 0.008, 3000.0, 3000.0)
FEW = 1000  # entries up to which tasks are too coarse for that; chains go about it more loosely
LOOSE = (0.03, 0.03, 300.0, 300.0)
CROWD = 0.1  # share of the clusters above the level, without chains
ABOVE = 1.02  # level in bounds, to start with
DROP = 0.0095  # distance of the level below the best plan, with chains, in M^0.3 M / N of it
DEPTH = 4  # tasks moved at once
STARTS, MORE = 2, 4  # searches side by side, of which the best counts; more of them for few entries
WORK = (2e6, 1e7)  # visits of a pair in each phase, or what takes as long; less for few entries
PASSES = (10, 30)  # visits of each pair in each phase, besides
BALANCE = 2e4  # work of the second phase per cluster, besides
HOTTER = (2.0, 8.0, 32.0, 128.0)  # temperatures of tiny rounds in units of those above, each twice
CHUNK = 1e6  # work between two looks at the clock


def search(
    problem: MatchingProblem,
    pricing: Pricing,
    *,
    target: float = 1e-4,
    time_limit: float,
    seed: int = 0,
    penalty: float | None = None,
    start: Ints | None = None,
) -> Ints:
    """A plan of one round, rounded at the prices and then improved by simulated annealing.

    Args:
        problem: (M, N).
        pricing: its prices, bound and candidates.
        target: the relative gap to the bound at which to stop.
        time_limit: seconds after which to stop; unless it stops the search, equal seeds give equal plans, whatever the
            number of cores.
        seed: of the annealing.
        penalty: price of a missing unit of summed reliability, or None where reliability is a constraint.
        start: (N,) plan to start from instead of a rounded one; a task at -1 or at a cluster of no use is rounded.

    Returns:
        (N,) cluster of each task; all -1 if no plan was found that meets every constraint.
    """
    end = time.perf_counter() + time_limit
    setting = _setting(problem, pricing, penalty)
    starts = MORE if problem.T.size <= FEW else STARTS
    enough = pricing.bound * (1.0 + target)
    with ThreadPoolExecutor(min(starts, len(os.sched_getaffinity(0)))) as threads:
        found = threads.map(lambda k: _annealed(setting, enough, target, end, seed * starts + k, start), range(starts))
        _, plan = min(found, key=itemgetter(0))
    nothing = np.full(problem.tasks, -1)
    if plan is None:
        return nothing
    broken = violations(problem, plan)
    if penalty is not None:
        del broken["reliability"]
    return nothing if any((excess > 0).any() for excess in broken.values()) else plan


@dataclass(frozen=True)
class _Setting:
    """What the search works on.

    Attributes:
        pairs, terms: of the compiled search.
        order: (N,) tasks, the most expensive first.
        floor: makespan that no plan is expected to be below.
        unit: objective per task.
        drop: relative distance of the level below the best plan, with chains.
        alone: whether the makespan is all that counts.
        tiny: whether to start again at several temperatures.
    """

    pairs: Pairs
    terms: Terms
    order: Ints
    floor: float
    unit: float
    drop: float
    alone: bool
    tiny: bool


def _annealed(
    setting: _Setting, enough: float, target: float, end: float, seed: int, start: Ints | None
) -> tuple[float, Ints | None]:
    """Objective and clusters (N,) of the best plan found that meets every constraint."""
    from mfcp.matching.large import moves

    pairs, terms = setting.pairs, setting.terms
    M, N = len(terms.backlog), len(pairs.start) - 1
    plan = _empty(setting)
    if start is not None:
        given = pairs.cluster == np.repeat(start, np.diff(pairs.start))
        plan.own[np.repeat(np.arange(N), np.diff(pairs.start))[given]] = np.flatnonzero(given)
    plan.scalars[moves.LEVEL] = setting.floor
    moves.round_shares(pairs, terms, plan, setting.order, 0.3 * N / M)
    draws = -np.log((np.arange(4096) + 0.5) / 4096)
    np.random.default_rng(0).shuffle(draws)
    state = np.random.default_rng(seed).integers(1, 2**63, 1, np.uint64)

    def done() -> bool:
        return bool(plan.scalars[moves.BEST] <= enough) or time.perf_counter() > end

    few, unit = M * N <= FEW, setting.unit * (1000.0 / N) ** COOLER
    curves = (WARM, LOOSE if few else CHAINS)
    least = setting.floor * (1.0 + 0.5 * target)

    def anneal(phase: int, until: float, total: float, hotter: float) -> None:
        curve = np.array(curves[phase]) * np.array([hotter * unit, hotter * unit, 1.0, 1.0])
        while plan.scalars[moves.WORK] < until and not done():
            stop = min(plan.scalars[moves.WORK] + CHUNK, until)
            moves.anneal(
                pairs, terms, plan, curve, total, stop, (1, DEPTH)[phase], CROWD, setting.drop, least, setting.alone,
                draws, state,
            )  # fmt: skip

    repeats = HOTTER * 2 if setting.tiny else (1.0,)
    part_of = min(1.0, 0.5 * M * N / FEW) / len(repeats)
    first, second = (part_of * (work + passes * len(pairs.time)) for work, passes in zip(WORK, PASSES, strict=True))
    second += part_of * BALANCE * M
    for hotter in repeats:
        plan.scalars[moves.LEVEL] = setting.floor * ABOVE
        plan.scalars[moves.MARGIN] = 0.0
        plan.scalars[[moves.WORK, moves.CURSOR]] = 0.0
        anneal(0, first, first, hotter)
        if plan.best[0] >= 0 and len(repeats) == 1:
            plan.own[:] = plan.best
        plan.scalars[[moves.WORK, moves.CURSOR]] = 0.0
        anneal(1, second, second, hotter)
    best = None if plan.best[0] < 0 else pairs.cluster[plan.best].astype(np.int64)
    return float(plan.scalars[moves.BEST]), best


def _empty(setting: _Setting) -> Plan:
    """A plan without tasks."""
    from mfcp.matching.large import moves

    pairs, terms = setting.pairs, setting.terms
    M, N, P = len(terms.backlog), len(pairs.start) - 1, len(pairs.time)
    scalars = np.zeros(moves.SCALARS)
    scalars[[moves.BEST, moves.LATEST, moves.AIM]] = np.inf
    return moves.Plan(
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
    )


def _setting(problem: MatchingProblem, pricing: Pricing, penalty: float | None) -> _Setting:
    """The pairs of use, what they cost at the prices, and the constraints."""
    from mfcp.matching.large import moves

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
    near = price - price.min(axis=1)[:, None] <= NEAR * np.maximum(worth / N, wealth)[:, None]
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
    return _Setting(
        pairs=moves.Pairs(
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
        terms=moves.Terms(
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
        unit=worth / N,
        drop=drop,
        alone=bool(weights.makespan) and not (weights.total_time or weights.cost) and penalty is None,
        tiny=M * N <= TINY,
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
