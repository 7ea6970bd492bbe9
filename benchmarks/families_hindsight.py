"""What a job's own numbers tell at best of numbers and placements that it was never given; for column E.

For every device, placement and number, steps are regressed on the job's own given steps, as learned from other models.
What is in the regression, and how much it is shrunk, is chosen by the very errors that are reported: it is no forecast,
but what forecasts would be if the right regression were always known.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.tasks.timing.scaling_fit import ScaledRuns

HINDSIGHT = "own numbers, weighed in hindsight"
_MOST = 3  # regressors at a time
_SHRUNK = (1e-3, 1e-2, 1e-1, 1.0)  # ridge, for each run
_THERE = 0.75  # of the runs that have a number, for it to be a regressor


def best_regressions(runs: ScaledRuns, y: Floats, held: Bools) -> Floats:
    """(n,) log seconds of the runs that are held; nan elsewhere, and of jobs without a number to start from or without
    another model to learn from.

    Args:
        runs, y: n runs and their (n,) log seconds.
        held: (n,) what no regression is given of its own job.
    """
    given = ~held
    found = np.full(len(y), np.nan)
    for device, spread, count in sorted({_place(runs, row) for row in np.flatnonzero(held)}):
        at = np.flatnonzero(held & (runs.device == device) & (runs.spread == spread) & (runs.accelerators == count))
        start, regressors = _own_numbers(runs, y, given, at)
        own = np.isfinite(start)
        models = runs.model[at[own]]
        if len(np.unique(models)) > 1:
            found[at[own]] = start[own] + _best(regressors[own], (y[at] - start)[own], models)
    return found


def _place(runs: ScaledRuns, row: int) -> tuple[str, bool, float]:
    return str(runs.device[row]), bool(runs.spread[row]), float(runs.accelerators[row])


def _own_numbers(runs: ScaledRuns, y: Floats, given: Bools, at: Ints) -> tuple[Floats, Floats]:
    """(k,) what each of k runs starts from, its job's largest given number in that placement or else in a node, and
    (k, C) regressors: how far its other given numbers are from that, its level and its batch.

    A number is of as large a batch for each accelerator, or where hardly any job has that, of as large a batch.
    """
    share = runs.batch / runs.accelerators
    told = _told(runs, y, given, at, share) or _told(runs, y, given, at, runs.batch)
    start = np.full(len(at), np.nan)
    here = bool(runs.spread[at[0]])
    for _, own in sorted(told.items(), key=lambda item: (item[0][0] == here, item[0][1])):
        start = np.where(np.isfinite(own), own, start)
    others = [np.nan_to_num(own - start) for own in told.values()]
    return start, np.column_stack([*others, np.nan_to_num(start), np.log(share[at])])


def _told(runs: ScaledRuns, y: Floats, given: Bools, at: Ints, size: Floats) -> dict[tuple[bool, float], Floats]:
    """(k,) log seconds of the same jobs and sizes by placement and number, where most have them; nan of the others."""
    job, place = runs.job, list(zip(runs.spread.astype(bool).tolist(), runs.accelerators.tolist(), strict=True))
    step = {(job[row], size[row], place[row]): y[row] for row in np.flatnonzero(given)}
    found = {
        there: np.array([step.get((job[row], size[row], there), np.nan) for row in at]) for there in sorted(set(place))
    }
    return {there: own for there, own in found.items() if np.isfinite(own).mean() >= _THERE}


def _best(x: Floats, y: Floats, models: Texts) -> Floats:
    """(k,) answers of the regression of y on columns of x, learned from other models, whose mean error is least."""
    best, error = np.zeros(len(y)), np.inf
    for size in range(_MOST + 1):
        for chosen in combinations(range(x.shape[1]), size):
            for shrunk in _SHRUNK if size else _SHRUNK[:1]:
                answer = np.empty(len(y))
                for model in np.unique(models):
                    out = models == model
                    answer[out] = _ridge(x[:, chosen][~out], y[~out], x[:, chosen][out], shrunk)
                if (mean := float(np.abs(np.expm1(answer - y)).mean())) < error:
                    best, error = answer, mean
    return best


def _ridge(x: Floats, y: Floats, asked: Floats, shrunk: float) -> Floats:
    """A regression with an intercept, which is the median where there is nothing to regress on."""
    if not x.shape[1]:
        return np.full(len(asked), np.median(y))
    middle, level = x.mean(axis=0), y.mean()
    square = (x - middle).T @ (x - middle) + shrunk * len(y) * np.eye(x.shape[1])
    return level + (asked - middle) @ np.linalg.solve(square, (x - middle).T @ (y - level))
