"""The integer half of matching at scale: a plan rounded at the prices, then annealed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mfcp.matching.large.candidates import Candidates, Pricing, gather, rows_of
from mfcp.matching.problem import SLACK, Bools, Floats, Ints, MatchingProblem, violations

if TYPE_CHECKING:
    from mfcp.matching.large.moves import Pairs, Plan, Terms

DEADLINES = 64  # levels of deadlines that are told apart; of more, a task is held to the next one down
SMALL = 100_000  # entries up to which every allowed pair is searched
TUNE = dict(
    theta=0.15,
    th0=0.05,
    th1=0.003,
    e0=100.0,
    e1=5000.0,
    dl=5e-4,
    dn=2,
    swap=1,
    up=1.02,
    crowd=0.1,
    least=3,
    rounds=1,
    budget=12e6,
    most=20000,
    fewest=400,
    sweeps=0,
)
LOG = None


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
        time_limit: seconds after which to stop; short of it, equal seeds give equal plans.
        seed: of the annealing.
        penalty: price of a missing unit of summed reliability, or None where reliability is a constraint.
        start: (N,) plan to start from instead of a rounded one.

    Returns:
        (N,) cluster of each task; all -1 if no plan was found that meets every constraint.
    """
    end = time.perf_counter() + time_limit
    round_ = _Round(problem, pricing, penalty)
    plan = round_.search(start, target, end, seed)
    if plan[0] < 0 or any(
        (excess > 0).any()
        for name, excess in violations(problem, plan).items()
        if not (name == "reliability" and penalty is not None)
    ):
        return np.full(problem.tasks, -1)
    return plan


class _Round:
    def __init__(self, problem: MatchingProblem, pricing: Pricing, penalty: float | None) -> None:
        from mfcp.matching.large import moves

        M, N = problem.clusters, problem.tasks
        self.problem, self.pricing = problem, pricing
        weights = problem.objective
        c = pricing.candidates
        if M * N <= SMALL and c.cluster.shape[1] < M:
            c = _every(problem, c)
        p = pricing.prices
        valid = c.cluster >= 0
        at = np.maximum(c.cluster, 0)
        seconds = np.where(valid, c.time, 0.0)
        expected = np.bincount(at.ravel(), (c.share * seconds).ravel(), minlength=M)
        backlog = np.zeros(M) if problem.backlog is None else problem.backlog.astype(np.float64)
        money = np.zeros(c.time.shape) if c.linear is None else c.linear
        linear = float((c.share * money).sum())
        zeta = np.zeros((M, 0))
        busy = expected
        factor = np.ones(M)
        if problem.zeta is not None:
            zeta = problem.zeta
            count = np.bincount(at.ravel(), c.share.ravel(), minlength=M)
            factor = zeta[np.arange(M), np.clip(count.round().astype(int), 1, N)]
            money = money - weights.total_time * seconds
            busy = expected * factor
        self.expected_level = float((busy + backlog)[busy > 0].max())
        own = (p.seconds * factor)[at] * seconds
        price = own + money - (p.reliability * c.reliability if penalty is None else 0.0)
        for r in range(len(p.rows)):
            price = price + p.rows[r][at] * c.use[r]
        price[~valid] = np.inf
        by_price = np.argsort(price, axis=1, kind="stable")
        c, price, own, money, seconds, valid, at = _sorted(c, by_price, price, own, money, seconds, valid, at)
        floor = (pricing.bound - linear) / weights.makespan if weights.makespan else np.inf
        if not 0.5 * self.expected_level < floor < np.inf:
            floor = 0.5 * self.expected_level
        self.floor = floor if weights.makespan else 1e300
        self.worth = weights.makespan * self.floor * (weights.makespan > 0) + linear
        self.scale = self.worth / N
        # --- limits
        limit, scale, rank = self._limits(c, seconds, valid, backlog)
        # --- filter
        tu = TUNE
        wealth = np.where(valid, own + money, np.inf).min(1)
        position = np.arange(price.shape[1])
        alone = seconds * (zeta[at, 1] if zeta.shape[1] else 1.0) + backlog[at]
        C = len(problem.capacities)
        fits = valid.copy()
        for r in range(C):
            fits &= c.use[r] <= limit[r][at] * (1 + 1e-9)
        short = np.ones_like(fits)
        if M * N > 100 and weights.makespan:
            short = alone <= 1.05 * max(self.floor, self.expected_level)
        keep = valid & (
            (price - price[:, :1] <= tu["theta"] * np.maximum(self.scale, wealth)[:, None])
            | (position < tu["least"])
            | (c.share > 0.01)
        )
        for good in (fits & short, fits, short):
            chosen = keep & good
            lost = ~chosen.any(1)
            chosen[lost] = (valid & good)[lost]
            if chosen.any(1).all():
                keep = chosen
                break
        starts = np.concatenate([[0], keep.sum(1).cumsum()])
        share = np.where(keep, c.share, 0.0)
        total = share.sum(1)
        share[total <= 0] = (keep & (np.cumsum(keep, 1) == 1))[total <= 0]
        share /= share.sum(1)[:, None]
        self.pairs = moves.Pairs(
            starts,
            c.cluster[keep].astype(np.int32),
            seconds[keep],
            c.reliability[keep],
            price[keep],
            money[keep],
            np.ascontiguousarray(c.use[:C][:, keep]),
            np.repeat(rank, keep.sum(1)).astype(np.int32),
            share[keep],
        )
        need = float(problem.gamma) * N
        q = max(p.reliability, 0.1 * self.worth / max(need, 1e-9 * N))
        self.terms = moves.Terms(
            weights.makespan,
            weights.total_time if zeta.shape[1] else 0.0,
            np.maximum(p.seconds, 0.05 * weights.makespan / M) * (self.floor if weights.makespan else 0.0),
            backlog,
            zeta,
            limit,
            scale,
            self.worth / M,
            need,
            -1.0 if penalty is None else penalty,
            q * q / (2 * max(tu["dl"] * self.worth, tu["dn"] * self.scale)),
        )
        self.order = np.argsort(-wealth, kind="stable")
        self.only = bool(weights.makespan) and not (weights.total_time or weights.cost) and penalty is None

    def _limits(self, c: Candidates, seconds: Floats, valid: Bools, backlog: Floats) -> tuple[Floats, Floats, Ints]:
        problem = self.problem
        M, N = problem.clusters, problem.tasks
        limits = [x.limit for x in problem.capacities]
        uses = [float(c.use[r][valid].mean()) for r in range(len(limits))]
        rank = np.zeros(N, np.int64)
        if problem.deadline is not None:
            due = np.unique(problem.deadline[np.isfinite(problem.deadline)])
            if len(due) > DEADLINES:
                due = due[np.linspace(0, len(due) - 1, DEADLINES).round().astype(int)]
            rank = np.searchsorted(due, problem.deadline, side="right") - 1
            rank = np.where(np.isfinite(problem.deadline), rank, len(due))
            limits += [np.maximum(at - backlog, 0.0) for at in due]
            uses += [float(seconds[valid].mean())] * len(due)
        limit = np.array(limits, np.float64).reshape(len(limits), M)
        limit = np.where(np.isfinite(limit), limit, 1e300)
        return limit, limit + np.array(uses).reshape(-1, 1) + 1e-300, rank

    def search(self, start, target, end, seed):
        from mfcp.matching.large import moves

        M, N = self.problem.clusters, self.problem.tasks
        pairs, terms, tu = self.pairs, self.terms, TUNE
        plan = moves.Plan(
            np.full(N, -1, np.int64),
            np.zeros(M),
            np.zeros(M),
            np.zeros(terms.limit.shape),
            np.zeros(M),
            np.zeros(M, bool),
            np.full(N, -1, np.int64),
            np.zeros(moves.SCALARS),
        )
        plan.scalars[moves.BEST] = np.inf
        plan.scalars[moves.LEVEL] = self.floor
        if start is not None:
            given = pairs.cluster == np.repeat(start, np.diff(pairs.start))
            task = np.repeat(np.arange(N), np.diff(pairs.start))[given]
            plan.own[task] = np.flatnonzero(given)
        moves.round_shares(pairs, terms, plan, self.order, 0.3 * N / M)
        draws = -np.log((np.arange(4096) + 0.5) / 4096)
        np.random.default_rng(0).shuffle(draws)
        state = np.array([88172645463325252 + 7919 * seed], np.uint64)
        S = int(tu["sweeps"] or min(max(tu["budget"] / len(pairs.time), tu["fewest"]), tu["most"]))
        f = np.linspace(0, 1, S)
        schedule = np.stack(
            [tu["th0"] * (tu["th1"] / tu["th0"]) ** f * self.scale, tu["e0"] * (tu["e1"] / tu["e0"]) ** f], 1
        )
        where = np.full((N, M) if M * N <= SMALL and tu["swap"] else (0, M), -1, np.int32)
        if len(where):
            where[np.repeat(np.arange(N), np.diff(pairs.start)), pairs.cluster] = np.arange(len(pairs.time))
        chunk = max(1, min(S // 4, 2_000_000 // len(pairs.time)))
        for r in range(int(tu["rounds"]) if M * N > 100 else 8):
            if M * N <= 100:
                schedule[:, 0] = self.scale * (0.2 * 4.0 ** (r % 4)) * 0.01**f
            plan.scalars[moves.LEVEL] = self.floor * tu["up"]
            plan.scalars[moves.MARGIN] = 0.0
            for lo in range(0, S, chunk):
                moves.anneal(
                    pairs,
                    terms,
                    plan,
                    where,
                    schedule[lo : lo + chunk],
                    tu["crowd"],
                    self.floor * (1 + 0.5 * target),
                    self.only,
                    draws,
                    state,
                )
                if LOG:
                    b = self.floor
                    x = plan.load / b - 1
                    LOG(
                        f"   {lo} level {plan.scalars[2] / b - 1:.5f} max {x.max():.5f} 90% {np.quantile(x, 0.9):.5f} best {plan.scalars[1] / b - 1:.5f} rel short {terms.need - plan.scalars[0]:.6f} margin {plan.scalars[3]:.6f} moves {plan.scalars[4]:.0f}"
                    )
                if plan.scalars[moves.BEST] <= self.pricing.bound * (1 + target) or time.perf_counter() > end:
                    break
            if plan.scalars[moves.BEST] <= self.pricing.bound * (1 + target) or time.perf_counter() > end:
                break
        if plan.best[0] < 0:
            return np.full(N, -1, np.int64)
        return pairs.cluster[plan.best].astype(np.int64)


def _every(problem: MatchingProblem, candidates: Candidates) -> Candidates:
    """Every allowed cluster of every task as candidates, with the same shares."""
    M, N = problem.clusters, problem.tasks
    cluster = np.where(problem.allowed.T, np.arange(M, dtype=np.int32), np.int32(-1))
    full = gather(problem, rows_of(problem), cluster)
    share = np.zeros((N, M))
    valid = candidates.cluster >= 0
    np.add.at(share, (np.nonzero(valid)[0], candidates.cluster[valid]), candidates.share[valid])
    return replace(full, share=share)


def _sorted(c, order, *arrays):
    def take(x):
        return np.take_along_axis(x, order, 1)

    use = np.stack([take(x) for x in c.use]) if len(c.use) else np.zeros((0, *order.shape))
    c = Candidates(
        take(c.cluster),
        take(c.time),
        take(c.reliability),
        None if c.linear is None else take(c.linear),
        use,
        take(c.share),
    )
    return c, *(take(x) for x in arrays)
