"""An integer plan near a fractional one: most likely cluster, repairs, then moves and swaps that shorten the round."""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.matching import clock
from mfcp.matching.large.candidates import rows_of
from mfcp.matching.problem import SLACK, MatchingProblem, objective_value, violations

PAIRS = 1_000_000  # swaps that one step looks at, at most
LEVELS = 64  # distinct deadlines that repairs and moves see; a plan that breaks a further one is dropped


def rounded(problem: MatchingProblem, shares: Floats, price: Floats, until: float) -> Ints | None:
    """The best plan found of one round, or None where the repairs did not reach a feasible one.

    Args:
        problem: (M, N), without parallel execution.
        shares: (M, N) fractional plan.
        price: (M, N) what a task costs on a cluster at that plan's prices; repairs add as little of it as they can.
        until: `clock.seconds` at which to return what there is.
    """
    draft = _Draft(problem, np.where(problem.allowed, shares, -1.0).argmax(axis=0), price)
    draft.raise_reliability()
    if draft.rows and draft.fit_rows():
        draft.raise_reliability()
    if any(excess > 0 for excess in violations(problem, draft.plan).values()):
        return None
    best, value = draft.plan.copy(), float(objective_value(problem, draft.plan))
    while clock.seconds() < until and draft.improve():
        found = float(objective_value(problem, draft.plan)) if draft.linear is not None else 0.0
        if found < value:
            best, value = draft.plan.copy(), found
    kept = best if draft.linear is not None else draft.plan
    return kept if not any(excess > 0 for excess in violations(problem, kept).values()) else None


class _Draft:
    """A plan under change, with its sums kept up to date."""

    def __init__(self, problem: MatchingProblem, plan: Ints, price: Floats) -> None:
        self.problem, self.plan, self.price = problem, plan, price
        self.T = problem.T if problem.allowed.all() else np.where(problem.allowed, problem.T, 0.0)  # no inf
        self.A, self.linear = problem.A, problem.linear()
        self.weight = problem.objective.makespan
        self.wait = np.zeros(problem.clusters) if problem.backlog is None else problem.backlog
        self.need = float(problem.gamma - SLACK / 2) * problem.tasks
        every = np.arange(problem.tasks)
        self.load = np.bincount(plan, self.T[plan, every], minlength=problem.clusters).astype(np.float64)
        self.count = np.bincount(plan, minlength=problem.clusters)
        self.reached = float(self.A[plan, every].sum(dtype=np.float64))
        self.rows = rows_of(problem, levels=LEVELS)
        self.limit = [row.limit * (1.0 + SLACK / 2) for row in self.rows]
        self.used = [
            np.bincount(plan, self.use(r, plan, every), minlength=problem.clusters) for r in range(len(self.rows))
        ]

    def use(self, r: int, cluster: Ints, task: Ints) -> Floats:
        """What tasks use of row r on clusters; the two index together."""
        row = self.rows[r]
        amount = np.asarray((self.T if row.use is None else row.use)[cluster, task], np.float64)
        return amount if row.active is None else amount * row.active[task]

    def move(self, task: int, cluster: int) -> None:
        """Put a task on a cluster."""
        for at, sign in ((int(self.plan[task]), -1.0), (cluster, 1.0)):
            self.load[at] += sign * self.T[at, task]
            self.count[at] += int(sign)
            self.reached += sign * float(self.A[at, task])
            for r in range(len(self.rows)):
                self.used[r][at] += sign * float(self.use(r, np.array(at), np.array(task)))
        self.plan[task] = cluster

    def raise_reliability(self) -> None:
        """Single moves, most reliability per price first, until gamma is met or nothing more fits."""
        while self.reached < self.need:
            every = np.arange(self.problem.tasks)
            gain = self.A - self.A[self.plan, every]
            added = np.maximum(self.price - self.price[self.plan, every], 1e-12 * np.abs(self.price).max() + 1e-100)
            worth = np.where(self.problem.allowed & (gain > 0), gain / added, 0.0)
            best, begun = worth.argmax(axis=0), self.reached
            for task in np.argsort(-worth[best, every], kind="stable"):
                target = int(best[task])
                if worth[target, task] <= 0 or self.reached >= self.need:
                    break
                if self.fits(np.array([target]), np.array([task]))[0]:
                    self.move(int(task), target)
            if self.reached <= begun:
                return

    def fit_rows(self) -> bool:
        """Move tasks off clusters that are over a limit, least price first; whether any was moved."""
        moved = False
        for _ in range(4 * self.problem.tasks):
            over = [float((used - limit).max()) for used, limit in zip(self.used, self.limit, strict=True)]
            r = int(np.argmax(over))
            if over[r] <= 0:
                break
            cluster = int((self.used[r] - self.limit[r]).argmax())
            tasks = np.flatnonzero(self.plan == cluster)
            freed = self.use(r, np.full(len(tasks), cluster), tasks)
            targets = np.arange(self.problem.clusters)[:, None]
            possible = self.problem.allowed[:, tasks] & (targets != cluster) & (freed > 0) & self.fits(targets, tasks)
            if not possible.any():
                break
            dear = self.price[:, tasks] - self.price[cluster, tasks]
            cost = np.where(dear > 0, dear / np.maximum(freed, 1e-300), dear * freed)
            target, at = np.unravel_index(np.where(possible, cost, np.inf).argmin(), possible.shape)
            self.move(int(tasks[at]), int(target))
            moved = True
        return moved

    def fits(self, cluster: Ints, task: Ints, leaving: Ints | None = None) -> Bools:
        """Whether clusters have room in every row for a further task; indices broadcast together.

        Args:
            cluster: indices.
            task: indices.
            leaving: tasks that leave those clusters at the same time.
        """
        shapes = (cluster.shape, task.shape, () if leaving is None else leaving.shape)
        result = np.ones(np.broadcast_shapes(*shapes), bool)
        for r in range(len(self.rows)):
            after = self.used[r][cluster] + self.use(r, cluster, task)
            if leaving is not None:
                after = after - self.use(r, cluster, leaving)
            result &= after <= self.limit[r][cluster]
        return result

    def improve(self) -> bool:
        """One move or swap that lets the last cluster end earlier; False where there is none."""
        end = np.where(self.count > 0, self.load + self.wait, 0.0)
        last = int(end.argmax())
        tasks = np.flatnonzero(self.plan == last)
        return self._move_from(last, tasks, end) or self._swap_with(last, tasks, end)

    def _move_from(self, last: int, tasks: Ints, end: Floats) -> bool:
        targets = np.arange(self.problem.clusters)[:, None]
        left = end[last] - self.T[last, tasks] if len(tasks) > 1 else np.zeros(1)
        there = self.load[:, None] + self.wait[:, None] + self.T[:, tasks]
        cost = self.weight * (np.maximum(there, left) - end[last])
        if self.linear is not None:
            cost = cost + self.linear[:, tasks] - self.linear[last, tasks]
        possible = self.problem.allowed[:, tasks] & (targets != last) & (cost < -SLACK * self.weight * end[last])
        possible &= self.reached + self.A[:, tasks] - self.A[last, tasks] >= self.need
        if possible.any():
            possible &= self.fits(targets, tasks)
        if not possible.any():
            return False
        target, at = _least(cost, there, possible, SLACK * self.weight * float(end[last]))
        self.move(int(tasks[at]), target)
        return True

    def _swap_with(self, last: int, tasks: Ints, end: Floats) -> bool:
        others = np.flatnonzero(self.plan != last)
        most = max(PAIRS // max(len(tasks), 1), 1)
        if len(others) > most:  # partners on the clusters that end first
            others = others[np.argsort(end[self.plan[others]], kind="stable")[:most]]
        mine, at = tasks[:, None], self.plan[others]
        here = end[last] - self.T[last, mine] + self.T[last, others]
        there = end[at] - self.T[at, others] + self.T[at, mine]
        cost = self.weight * (np.maximum(here, there) - end[last])
        if self.linear is not None:
            cost = cost + self.linear[last, others] - self.linear[last, mine]
            cost = cost + self.linear[at, mine] - self.linear[at, others]
        possible = self.problem.allowed[last, others] & self.problem.allowed[at, mine]
        possible &= cost < -SLACK * self.weight * end[last]
        change = self.A[last, others] + self.A[at, mine] - self.A[last, mine] - self.A[at, others]
        possible &= self.reached + change >= self.need
        if self.rows and possible.any():
            possible &= self.fits(np.array(last), others, mine) & self.fits(at, mine, others)
        if not possible.any():
            return False
        one, other = _least(cost, here + there, possible, SLACK * self.weight * float(end[last]))
        task, partner = int(tasks[one]), int(others[other])
        cluster = int(self.plan[partner])
        self.move(task, cluster)
        self.move(partner, last)
        return True


def _least(cost: Floats, tie: Floats, possible: Bools, slack: float) -> tuple[int, int]:
    """Where the cost is least; among costs within `slack` of it, where `tie` is least.

    Moves often cost the same, because what the last cluster keeps, or another one, decides when the round ends.
    """
    allowed = np.where(possible, cost, np.inf)
    first = np.where(allowed <= allowed.min() + slack, tie, np.inf).argmin()
    row, column = np.unravel_index(first, possible.shape)
    return int(row), int(column)
