"""The mixed-integer linear program of one round, for HiGHS, and its elastic form: the least excess of a constraint.

HiGHS keeps rows to 1e-6 and integers to 1e-6, plans here are held to `SLACK`. So rows are scaled until their tolerance
is below it, bounds are taken down by what the tolerances may hide, and a plan that slipped through is cut off, alone,
before HiGHS runs again: what it proves stays true.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SolverError
from mfcp.matching import clock
from mfcp.matching.bounds import simple_bound, span_bound
from mfcp.matching.problem import SLACK, MatchingProblem, makespan, objective_value, violations
from mfcp.threads import heeding_interrupts

_SIZE = 100.0  # what the objective is scaled to: HiGHS's absolute tolerances are then 1e-8 of it
_ROW = 1e4  # what limits are scaled to
_HIDDEN = 2e-7  # share of a bound that HiGHS's tolerances may be worth
_REPAIRS = 20  # plans cut off before giving up


class _Program:
    """min cost·v, rows of v within limits, v in [0, upper], the first columns binary.

    Columns: x of every useful (cluster, task) pair, then what the rows ask for. First rows: each task once.
    """

    def __init__(self, useful: Bools) -> None:
        self.cluster, self.task = np.nonzero(useful)
        self.shape = useful.shape
        self.pairs = len(self.cluster)
        self.complete = bool(useful.any(axis=0).all())  # else a task has no cluster: there is no plan
        self._cost: list[float] = []
        self._upper: list[float] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self._low: list[float] = []
        self._high: list[float] = []
        once = np.ones(useful.shape[1])
        self.rows(self.task, np.arange(self.pairs), np.ones(self.pairs), once, once)

    def pick(self, values: Floats) -> Floats:
        """The entries of (M, N) values that x stands for, as float64."""
        return np.asarray(values[self.cluster, self.task], np.float64)

    def column(self, cost: float, upper: float) -> int:
        """Index of a new continuous column after all x."""
        self._cost.append(cost)
        self._upper.append(upper)
        return self.pairs + len(self._cost) - 1

    def rows(self, row: Ints, column: Ints, value: Floats, low: Floats, high: Floats) -> None:
        """Rows of their own numbering 0 … len(low) - 1."""
        self._entries.append((row + len(self._low), column, value))
        self._low.extend(low.tolist())
        self._high.extend(high.tolist())

    def row(self, column: Ints, value: Floats, low: float, high: float) -> None:
        """One row."""
        self.rows(np.zeros(len(column), np.int64), column, value, np.array([low]), np.array([high]))

    def at_most(self, columns: Ints, column: int) -> None:
        """A row for each of `columns`: it is no more than `column`."""
        lines, ones = np.arange(len(columns)), np.ones(len(columns))
        both = np.concatenate([columns, np.full(len(columns), column)])
        self.rows(np.tile(lines, 2), both, np.concatenate([ones, -ones]), np.full(len(lines), -np.inf), 0.0 * ones)

    def forbid(self, plan: Ints) -> None:
        """Cut off this plan and no other."""
        chosen = np.flatnonzero(plan[self.task] == self.cluster)
        self.row(chosen, np.ones(len(chosen)), -np.inf, len(chosen) - 1.0)

    def solve(self, cost: Floats, seconds: float) -> tuple[Ints | None, float]:
        """Plan (N,), or None, and a lower bound of cost·v; inf where there is no plan."""
        from scipy import sparse
        from scipy.optimize import Bounds, LinearConstraint, milp

        columns = self.pairs + len(self._cost)
        row, column, value = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        matrix = sparse.csr_array((value, (row, column)), shape=(len(self._low), columns))
        upper = np.concatenate([np.ones(self.pairs), self._upper])
        for presolve in (True, False):  # presolve may end without saying which of infeasible and unbounded it was
            program = partial(
                milp,
                np.concatenate([cost, self._cost]),
                constraints=LinearConstraint(matrix, self._low, self._high),
                bounds=Bounds(np.zeros(columns), upper),
                integrality=np.concatenate([np.ones(self.pairs), np.zeros(len(self._cost))]),
                options={"time_limit": max(seconds, 0.01), "mip_rel_gap": 0.0, "presolve": presolve},
            )
            try:
                result = heeding_interrupts(program)
            except (ValueError, RuntimeError) as error:  # HiGHS's own, as "vector::reserve" out of a sub-MILP
                if not presolve:
                    raise SolverError(f"HiGHS broke on a {self.shape} round: {error}") from error
                continue
            if result.status != 4 or result.x is not None:
                break
        if result.status == 2:
            return None, np.inf
        if result.x is None and result.status != 1:
            raise SolverError(f"HiGHS failed on a {self.shape} round: {result.message}")
        bound = -np.inf if result.mip_dual_bound is None else float(result.mip_dual_bound)
        if result.x is None:
            return None, bound
        chosen = np.zeros(self.shape)
        chosen[self.cluster, self.task] = result.x[: self.pairs]
        return chosen.argmax(axis=0), bound


def milp_round(problem: MatchingProblem, price: float | None, limit: float, start: Ints | None) -> tuple[Ints, float]:
    """Plan (N,), -1 without one, and bound (inf where there is no plan) of one round by HiGHS.

    Args:
        problem: one round (M, N) without zeta.
        price: of missing reliability, or None for the constraint.
        limit: seconds.
        start: (N,) a plan that holds, whose value no better plan exceeds, or None.
    """
    end = clock.seconds() + limit
    best = np.inf if start is None else float(objective_value(problem, start, price))
    bound = float(simple_bound(problem, None if price is None else np.asarray(price)))
    plan = np.full(problem.tasks, -1) if start is None else start
    program, cost, unit = _program(problem, price, start, best, bound)
    if not program.complete:
        return plan, np.inf if start is None else bound
    for _ in range(_REPAIRS):
        found, proven = program.solve(cost, end - clock.seconds())
        if proven == np.inf:  # nothing but what `start` is; without one, nothing at all
            return plan, np.inf if start is None else bound
        bound = max(bound, proven * unit - _HIDDEN * abs(proven * unit))
        if found is None:
            break
        if _holds(problem, found, but=None if price is None else "reliability"):
            return (found if objective_value(problem, found, price) < best else plan), bound
        program.forbid(found)
    return plan, bound


def _program(
    problem: MatchingProblem, price: float | None, start: Ints | None, best: float, bound: float
) -> tuple[_Program, Floats, float]:
    """The program, the cost of its x, and what a unit of its objective is worth."""
    weights = problem.objective
    useful = problem.allowed
    if weights.makespan:
        alone = problem.T + (0.0 if problem.backlog is None else problem.backlog[:, None])
        useful = useful & (weights.makespan * alone <= best * (1.0 + SLACK))
    limits = list(_limits(problem))
    for _, use, most in limits:
        useful = useful & (use <= most[:, None])
    program = _Program(useful)
    unit = (best if 0 < best < np.inf else bound if bound > 0 else 1.0) / _SIZE
    linear = problem.linear()
    cost = np.zeros(program.pairs) if linear is None else program.pick(linear) / unit
    if weights.makespan:
        seconds = (float(span_bound(problem)) if start is None else _span(problem, start)) / _SIZE
        most_seconds = best / weights.makespan * (1.0 + 1e-6)  # HiGHS must not lose `start` itself to its tolerance
        _loads(program, problem, program.column(weights.makespan * seconds / unit, most_seconds / seconds), seconds)
    for _, use, most in limits:
        _limit(program, program.pick(use), most)
    if price is None:
        _reliability(program, problem, float(problem.gamma) - SLACK, None)
    elif price > 0:
        _reliability(program, problem, float(problem.gamma), program.column(price / _SIZE / unit, _SIZE))
    return program, cost, unit


def _loads(program: _Program, problem: MatchingProblem, top: int, unit: float) -> None:
    """Σ_j t_ij x_ij + b_i y_i <= tau, with y_i >= x_ij where there is a backlog; columns in `unit` seconds."""
    M, pairs = problem.clusters, np.arange(program.pairs)
    row, column = [program.cluster, np.arange(M)], [pairs, np.full(M, top)]
    value = [program.pick(problem.T) / unit, -np.ones(M)]
    if problem.backlog is not None:
        waiting = np.flatnonzero(problem.backlog > 0)
        used = np.array([program.column(0.0, 1.0) for _ in waiting], np.int64)
        for i, y in zip(waiting, used, strict=True):
            program.at_most(pairs[program.cluster == i], y)
        row, column = [*row, waiting], [*column, used]
        value.append(problem.backlog[waiting] / unit)
    entries = (np.concatenate(row), np.concatenate(column), np.concatenate(value))
    program.rows(*entries, np.full(M, -np.inf), np.zeros(M))


def _limits(problem: MatchingProblem) -> Iterator[tuple[str, Floats, Floats]]:
    """Name, use (M, N) and limit (M,) of every capacity and every deadline level, with the slack that plans have."""
    for capacity in problem.capacities:
        yield capacity.name, capacity.use, capacity.limit * (1.0 + SLACK)
    if problem.deadline is not None:
        start = 0.0 if problem.backlog is None else problem.backlog
        times = np.where(problem.allowed, problem.T, 0.0)
        for due in np.unique(problem.deadline[np.isfinite(problem.deadline)]):
            level = np.where(problem.deadline <= due, times, 0.0)
            yield "deadline", level, np.where(level.any(axis=1), due * (1.0 + SLACK) - start, np.inf)


def _limit(program: _Program, use: Floats, limit: Floats) -> None:
    """Σ_j use_ij x_ij <= limit_i; rows that always hold are left out."""
    rows = np.flatnonzero(np.isfinite(limit) & (np.bincount(program.cluster, use, minlength=len(limit)) > limit))
    if not len(rows):
        return
    scale = np.where(limit > 0, _ROW / np.where(limit > 0, limit, 1.0), 1.0)
    place = np.full(len(limit), -1)
    place[rows] = np.arange(len(rows))
    held = np.flatnonzero(place[program.cluster] >= 0)
    value = use[held] * scale[program.cluster[held]]
    program.rows(place[program.cluster[held]], held, value, np.full(len(rows), -np.inf), limit[rows] * scale[rows])


def _exceed(program: _Program, use: Floats, limit: Floats, excess: int, unit: float) -> None:
    """Σ_j use_ij x_ij <= limit_i + excess (a column, in `unit`s), where cluster i is used at all.

    A limit below 0, a deadline before the end of the backlog, is only exceeded by a cluster that gets a task.
    """
    for i in np.flatnonzero(np.isfinite(limit)):
        mine = np.flatnonzero((program.cluster == i) & (use > 0))
        if not len(mine):
            continue
        column, value, most = np.append(mine, excess), np.append(use[mine] / unit, -1.0), limit[i] / unit
        if limit[i] < 0:
            used = program.column(0.0, 1.0)
            program.at_most(mine, used)
            column, value, most = np.append(column, used), np.append(value, -most), 0.0
        program.row(column, value, -np.inf, most)


def _reliability(program: _Program, problem: MatchingProblem, least: float, shortfall: int | None) -> None:
    """Σ_ij a_ij x_ij / N + shortfall (a column, in 1 / _SIZE) >= least."""
    N, pairs = problem.tasks, np.arange(program.pairs)
    if np.where(problem.allowed, problem.A, np.inf).min(axis=0).sum(dtype=np.float64) >= least * N:
        return
    scale = max(1.0, _ROW / N)  # HiGHS's 1e-6 on the row is then 1e-10 of the mean
    column, value = pairs, program.pick(problem.A) * scale
    if shortfall is not None:
        column, value = np.append(pairs, shortfall), np.append(value, scale * N / _SIZE)
    program.row(column, value, scale * N * least, np.inf)


def least_excess(problem: MatchingProblem, name: str, limit: float) -> tuple[Ints | None, float]:
    """A plan that exceeds the limits called `name` least, and a lower bound of the excess; None, inf without a plan.

    Args:
        problem: one round (M, N) without zeta.
        name: of a capacity, or "deadline" (of a problem that is `reopened`); the excess is as `violations` counts it.
        limit: seconds.
    """
    end = clock.seconds() + limit
    limits = list(_limits(problem))
    useful = problem.allowed
    for other, use, most in limits:
        if other != name:
            useful = useful & (use <= most[:, None])
    program = _Program(useful)
    if not program.complete:
        return None, np.inf
    mine = [program.pick(use).sum() / problem.tasks for other, use, _ in limits if other == name]
    unit = max(mine, default=0.0) / _SIZE or 1.0
    excess = program.column(1.0, np.inf)
    for other, use, most in limits:
        if other == name:
            _exceed(program, program.pick(use), most, excess, unit)
        else:
            _limit(program, program.pick(use), most)
    _reliability(program, problem, float(problem.gamma) - SLACK, None)
    bound = 0.0
    for _ in range(_REPAIRS):
        found, proven = program.solve(np.zeros(program.pairs), end - clock.seconds())
        hidden = _HIDDEN * (_SIZE + proven) if np.isfinite(proven) else 0.0
        bound = max(bound, (proven - hidden) * unit)
        if found is None or _holds(problem, found, but=name):
            return found, bound
        program.forbid(found)
    return None, bound


def _holds(problem: MatchingProblem, plan: Ints, *, but: str | None) -> bool:
    return not any(excess > 0 for name, excess in violations(problem, plan).items() if name != but)


def _span(problem: MatchingProblem, plan: Ints) -> float:
    return float(makespan(plan, problem.T, None, problem.backlog))
