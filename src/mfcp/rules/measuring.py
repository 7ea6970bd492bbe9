"""What it is worth to a decision to measure a few steps of a task on a cluster before the round is decided.

A cell, one task on one cluster, is worth what knowing it is expected to save: by how much the plan that is best now is
expected to cost more than the plan that would be best then, both judged by what would be known then [Raiffa1961]_.

.. [Raiffa1961] H. Raiffa, R. Schlaifer, "Applied Statistical Decision Theory", 1961, §5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.matching.expected import (
    Moments,
    channels,
    descended,
    expected_plans,
    expected_span,
    planned_cost,
    score,
    sum_over_tasks,
)
from mfcp.matching.integer.enumeration import all_plans
from mfcp.rules.base import Belief
from mfcp.rules.expected_cost import MOST, log_normal, moments_of

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_FEW = 1000  # plans up to which all are looked at
_KICKS = 40  # descents from perturbed plans, shared by the tasks of a round
_ENTRIES = 4_000_000  # (outcomes, clusters, plans or tasks) worked on at once


def own_variance(covariance: Floats) -> Floats:
    """(..., M) variance of a task's errors (..., M, M) about their mean over its clusters, times M / (M - 1).

    That times equal for all clusters cannot change a plan is why only this is charged for. With one cluster, 0.
    """
    M = covariance.shape[-1]
    across = covariance.mean(axis=-1)
    about = np.diagonal(covariance, axis1=-2, axis2=-1) - 2 * across + across.mean(axis=-1, keepdims=True)
    result: Floats = np.maximum(about, 0.0) * (M / max(M - 1, 1))
    return result


def measured(covariance: Floats, cluster: Ints, variance: float) -> tuple[Floats, Floats]:
    """What measuring a further cell of tasks tells.

    Args:
        covariance: (..., M, M) of each task's errors of log time.
        cluster: (...) which cell.
        variance: of the measurement.

    Returns:
        gain: (..., M) shift of log times per unit by which the measurement is off its prediction.
        covariance: (..., M, M) thereafter.
    """
    index = np.asarray(cluster)[..., None, None]
    column = np.take_along_axis(covariance, index, axis=-1)[..., 0]
    gain = column / (np.take_along_axis(column, index[..., 0], axis=-1) + variance)
    return gain, covariance - gain[..., :, None] * column[..., None, :]


def informed(belief: Belief, shift: Floats, before: Floats, after: Floats, untold: Floats | None = None) -> Belief:
    """The belief after something was observed that its predictions did not know.

    The spread of a cell narrows as the process says it does, from where it was. By how much it differs from the
    process's, because part of a task is not told, or its newest tasks were off by more, or errors are not normal, goes
    as the task itself is measured: what was measured is as certain as its measurement. Other tasks leave less of the
    same error, so that the spread keeps its scale. It never widens.

    Args:
        belief: of B rounds.
        shift: (B, N, M) to be added to log times.
        before, after: (B, N, M, M) covariance of each task's errors; where they are equal, nothing changes.
        untold: (B, N, M) what cells of the task itself left of the variance that others left; None: only its own were
            observed.
    """
    whole = _ratio(*(np.diagonal(each, axis1=-2, axis2=-1) for each in (before, after)))
    own = _ratio(own_variance(before), own_variance(after))
    process_sd = np.sqrt(np.diagonal(before, axis1=-2, axis2=-1))
    scale = belief.log_sd.swapaxes(1, 2)  # of the belief's deviation to the process's
    scale = np.divide(scale, process_sd, out=np.ones(scale.shape), where=(scale > 0) & (process_sd > 0))
    told = 1 - (whole if untold is None else untold)
    narrowed = np.minimum(np.sqrt(whole) * (1 + (1 / scale - 1) * told), 1.0)
    return replace(
        belief,
        T=belief.T * np.exp(shift).swapaxes(1, 2),
        log_sd=belief.log_sd * narrowed.swapaxes(1, 2),
        own_sd=belief.own_sd * np.sqrt(own).swapaxes(1, 2),
    )


def _ratio(before: Floats, after: Floats) -> Floats:
    positive = before > 0
    result: Floats = np.where(positive, after / np.where(positive, before, 1.0), 1.0)
    return result


def cell_values(
    belief: Belief, covariance: Floats, variance: float, *, price: float, tasks: Sequence[int] | None = None
) -> tuple[Floats, Floats]:
    """By how many makespans measuring each cell is expected to make the plan better.

    What is measured is normal about its prediction; five Gauss-Hermite nodes stand for it. A plan's cost is that of the
    expected-cost rule. Of few plans all are looked at; else, at every node, those that moves and swaps from the plan of
    least cost lead to, so that the value is a bound from below.

    Args:
        belief: of B rounds.
        covariance: (B, N, M, M) of each task's errors of log time under the belief.
        variance: of the log of a measured time.
        price: of missing reliability, in makespans per unit.
        tasks: whose cells are looked at; None for all.

    Returns:
        value: (B, M, N) makespans, not negative; 0 where the pair does not exist, and of other tasks.
        unit: (B,) seconds of a makespan.
    """
    moments = moments_of(belief, 0.0)
    best = expected_plans(moments, price=price)
    B, M, N = belief.T.shape
    value, own = np.zeros((B, M, N)), range(N) if tasks is None else tasks
    few = M**N <= _FEW
    step = max(1, _ENTRIES // (M * len(_NODES) * M * (M**N if few else N)))
    for low in range(0, B, step):
        part = slice(low, low + step)
        outcomes = _Outcomes.of(belief, covariance, variance, part)
        worth = _of_all_plans if few else _of_descents
        value[part] = worth(moments.take(part), outcomes, best.assignment[part], best.unit[part], price, own)
    return np.where(belief.allowed, np.maximum(value, 0.0), 0.0), best.unit


@dataclass(frozen=True)
class _Outcomes:
    """(B, N, I, Q, M) mean and variance of a task's times once its cell on cluster I came out at node Q, less now's."""

    time: Floats
    time_variance: Floats

    @staticmethod
    def of(belief: Belief, covariance: Floats, variance: float, part: slice) -> _Outcomes:
        covariance = covariance[part]
        B, N, M, _ = covariance.shape
        cells = np.repeat(covariance[:, :, None], M, axis=2)  # (B, N, I, M, M)
        gain, after = measured(cells, np.broadcast_to(np.arange(M), (B, N, M)), variance)
        own = np.diagonal(covariance, axis1=-2, axis2=-1)  # (B, N, I)
        surprise = np.sqrt(own + variance)[..., None] * _NODES  # (B, N, I, Q)
        shift = gain[..., None, :] * surprise[..., None]
        narrowed = np.sqrt(_ratio(own_variance(cells), own_variance(after)))[:, :, :, None]  # (B, N, I, 1, M)
        T, sd = (v[part].swapaxes(1, 2)[:, :, None, None] for v in (belief.T, belief.own_sd))
        allowed = belief.allowed[part].swapaxes(1, 2)[:, :, None, None]
        then = log_normal(T * np.exp(shift), np.minimum(sd * narrowed, MOST))
        now = log_normal(T, np.minimum(sd, MOST))
        time, spread = (np.where(allowed, a - b, 0.0) for a, b in zip(then, now, strict=True))
        return _Outcomes(time, spread)


def _of_all_plans(
    moments: Moments, outcomes: _Outcomes, best: Ints, unit: Floats, price: float, tasks: Sequence[int]
) -> Floats:
    """(B, M, N), by looking at all plans."""
    B, M, N = moments.time.shape
    indicator = all_plans(M, N)[1]
    at = best @ (M ** np.arange(N - 1, -1, -1))
    totals = [sum_over_tasks(values, indicator) for values in channels(moments)]
    span, short = score(totals, moments, unit, None)
    fixed = np.where(np.isfinite(span), price * short, np.inf)
    count = totals[4]
    value = np.zeros((B, M, N))
    for n in tasks:
        moved = indicator[:, n]  # (M, P)
        mean, spread = (
            total[:, None, None] + changed[:, n, :, :, :, None] * moved
            for total, changed in ((totals[0], outcomes.time), (totals[1], outcomes.time_variance))
        )
        value[:, :, n] = _saved(mean, spread, count, fixed, at, moments, unit)
    return value


def _saved(
    mean: Floats, variance: Floats, count: Floats, fixed: Floats, at: Ints, moments: Moments, unit: Floats
) -> Floats:
    """(B, I) expected cost of the plan `at` less that of the best of P, over nodes: mean, variance (B, I, Q, M, P)."""
    B, cells, Q, M, P = mean.shape
    each = cells * Q
    backlog = None if moments.backlog is None else np.repeat(moments.backlog, each, axis=0)
    span = expected_span(
        mean.reshape(-1, M, P),
        np.maximum(variance, 0.0).reshape(-1, M, P),
        np.repeat(count, each, axis=0),
        moments.zeta,
        backlog,
    ).reshape(B, cells, Q, P)
    cost = span / unit[:, None, None, None] + fixed[:, None, None]
    held = np.take_along_axis(cost, np.broadcast_to(at[:, None, None, None], (B, cells, Q, 1)), axis=-1)[..., 0]
    result: Floats = (held - cost.min(axis=-1)) @ _WEIGHTS
    return result


def _of_descents(
    moments: Moments, outcomes: _Outcomes, best: Ints, unit: Floats, price: float, tasks: Sequence[int]
) -> Floats:
    """(B, M, N), by moves and swaps from the plan at every outcome."""
    B, M, N = moments.time.shape
    each = M * len(_NODES)
    value = np.zeros((B, M, N))
    start, units = np.repeat(best, each, axis=0), np.repeat(unit, each)
    for n in tasks:
        then = moments.take(np.repeat(np.arange(B), each))
        for values, change in ((then.time, outcomes.time), (then.time_variance, outcomes.time_variance)):
            values[:, :, n] = np.maximum(values[:, :, n] + change[:, n].reshape(-1, M), 0.0)
        held = planned_cost(then, start, units, price=price)
        saved = held - descended(then, start, units, price=price, kicks=_KICKS // N)
        value[:, :, n] = saved.reshape(B, M, -1) @ _WEIGHTS
    return value


@dataclass(frozen=True)
class Measurement:
    """A few steps of a task on a cluster that are worth running before a round is decided.

    Attributes:
        task, cluster: positions in the round's belief.
        value: makespans that knowing it is expected to save.
        seconds: the same in seconds.
    """

    task: int
    cluster: int
    value: float
    seconds: float


def measurements(
    belief: Belief,
    covariance: Floats,
    variance: float,
    *,
    price: float,
    open_cells: Bools,
    cost: Floats,
    worth: float = 0.0,
) -> Iterator[Measurement]:
    """The cells of one round (B = 1) that are worth more than they cost, the best first.

    What a cell is worth is told beside those before it, whose outcomes are not known yet: they leave less to learn of
    their task and the plan as it is. Measure one, tell its outcome and ask again, to have each chosen by what came.

    Args:
        belief, covariance, variance, price: as for `cell_values`.
        open_cells: (M, N) cells that can be measured.
        cost: (M, N) seconds that a measurement of each takes.
        worth: makespans that one must save besides.
    """
    left = open_cells.copy()
    value, unit = cell_values(belief, covariance, variance, price=price)
    while left.any():
        surplus = np.where(left & (value[0] > worth), value[0] - cost / unit[0], -np.inf)
        i, n = np.unravel_index(int(surplus.argmax()), surplus.shape)
        if not surplus[i, n] > 0:
            return
        yield Measurement(int(n), int(i), float(value[0, i, n]), float(value[0, i, n] * unit[0]))
        left[i, n] = False
        covariance = covariance.copy()
        covariance[0, n] = measured(covariance[0, n], np.asarray(i), variance)[1]
        # The plan and all that is believed of other tasks are as they were, and so is what their cells are worth.
        value[:, :, n] = cell_values(belief, covariance, variance, price=price, tasks=[int(n)])[0][:, :, n]
