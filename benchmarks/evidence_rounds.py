"""Rounds one after another, in which evidence is gathered: what `benchmarks/evidence.py` compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Ints
from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.methods.base import Trained, points_of
from mfcp.predictors.residuals import ObservedCells, TaskPoints
from mfcp.rules.base import Belief
from mfcp.rules.measuring import cell_values, informed, measured, own_variance
from mfcp.study.setting import Setting

WIDTH80 = 1.281552  # deviations either side that hold 80 % of a normal distribution
MOST = 8  # cells of a round, however much they are worth


@dataclass(frozen=True)
class Way:
    """How evidence is gathered and used.

    Attributes:
        history: finished runs that count: none, those of other tasks, or of the task itself too.
        choose: how cells are chosen: by what they change in the decision, by own variance, or at random.
        budget: cells of a round; None with `worth`: while one saves more than that.
        worth: makespans.
        noise, bias: of what is measured, in log time.
        assumed: deviation that is assumed of it.
        remembers: whether measured cells count for later rounds too.
    """

    history: Literal["none", "others", "own"] = "none"
    choose: Literal["value", "variance", "random"] = "value"
    budget: int | None = 0
    worth: float = 0.0
    noise: float = 0.05
    bias: float = 0.0
    assumed: float = 0.05
    remembers: bool = False


@dataclass
class _Seen:
    """Cells observed so far: positions of tasks, their clusters, and how far they were off their prediction."""

    task: list[int]
    cluster: list[int]
    off: list[float]


def play(trained: Trained, setting: Setting, reference: Reference, way: Way, *, draw: int = 0) -> pd.DataFrame:
    """The rounds of every seed in order: what is observed in one is known in the next.

    Returns:
        A row per seed and round: its metrics; cells that were measured; pairs, and how many of their 80 % intervals
        hold the truth, of all and of those that evidence moved; squares of what a task's clusters do not share, and
        their degrees of freedom.
    """
    T, A = trained.predict(setting)
    log_time = np.log(T)
    truth = np.where(setting.allowed, np.log(np.where(setting.allowed, setting.T_true, 1.0)), 0.0)
    frames = []
    for s, seed in enumerate(setting.seeds):
        rng = np.random.default_rng([seed, draw, int.from_bytes(setting.name.encode(), "big")])
        off = truth - log_time[s]
        frames.append(_play_seed(trained, setting, reference, way, s, log_time[s], A[s], off, rng))
    plans = np.concatenate([plan for plan, _ in frames])
    table = pd.DataFrame(round_metrics(plans, reference, price=setting.price))
    count = reference.rounds.shape[1]
    table.insert(0, "round", np.tile(np.arange(count), len(setting.seeds)))
    table.insert(0, "seed", np.repeat(setting.seeds, count))
    table.insert(0, "setting", setting.name)
    extra = pd.concat([more for _, more in frames], ignore_index=True)
    return pd.concat([table, extra], axis=1)


def _play_seed(
    trained: Trained, setting: Setting, reference: Reference, way: Way, s: int, log_time: Floats, A: Floats,
    off: Floats, rng: np.random.Generator,
) -> tuple[Ints, pd.DataFrame]:  # fmt: skip
    process, points, rule = trained.process(s), points_of(setting, s), trained.method.rule
    calibration, rounds, scale = trained.calibration, reference.rounds[s], scale80(trained, setting, s)
    seen, plans, rows = _Seen([], [], []), [], []
    source = setting.source_task
    for own in rounds:
        shift, covariance = np.zeros((len(own), setting.clusters)), np.repeat(process.total[None], len(own), axis=0)
        untold = np.ones(shift.shape)
        moved = np.zeros(len(own), bool)
        if way.history != "none" and seen.task:
            for q, j in enumerate(own):
                cells = _related(seen, points, source, int(j), way)
                if len(cells.cluster):
                    told = process.condition(points.take(own[q : q + 1]), cells)
                    shift[q], covariance[q], untold[q] = told.shift[0], told.covariance[0], told.untold[0]
                    moved[q] = True
        before = Belief.of(
            np.exp(log_time[:, own])[None], A[:, own][None], log_sd=scale * calibration.log_sd[s],
            own_sd=calibration.own_sd[s], a_sd=calibration.a_sd[s], gamma=setting.gamma[s],
            allowed=setting.allowed[:, own][None], zeta=setting.zeta,
        )  # fmt: skip
        start = np.broadcast_to(process.total, (1, *covariance.shape))
        belief = informed(before, shift[None], start, covariance[None], untold[None])
        open_cells = setting.allowed[:, own].copy()
        cells_made = 0
        while way.budget is None or cells_made < way.budget:
            chosen = _choose(belief, covariance, open_cells, way, setting.price, rng)
            if chosen is None or cells_made >= MOST:
                break
            i, q = chosen
            open_cells[i, q] = False
            cells_made += 1
            y = off[i, own[q]] + way.bias + way.noise * rng.standard_normal()
            gain, after = measured(covariance[q], np.asarray(i), way.assumed**2)
            step = np.zeros((1, *covariance.shape[:2]))
            step[0, q] = gain * (y - shift[q, i])
            narrowed = covariance.copy()
            narrowed[q] = after
            belief = informed(belief, step, covariance[None], narrowed[None])
            covariance, moved[q] = narrowed, True
            shift[q] += step[0, q]
            if way.remembers:
                _note(seen, int(own[q]), int(i), float(y))
        plan = rule.plan(belief, parameter=float(trained.parameter[s]), price=setting.price)[0]
        plans.append(plan)
        for q, j in enumerate(own):
            i = int(plan[q])
            _note(seen, int(j), i, float(off[i, j] + way.bias + way.noise * rng.standard_normal()))
        pairs, left = setting.allowed[:, own], off[:, own] - shift.T
        inside = np.abs(left) <= WIDTH80 * belief.log_sd[0]
        about = np.where(pairs, left, np.nan)
        about = np.square(about - np.nanmean(about, axis=0))
        rows.append({
            "cells": cells_made, "pairs": pairs.sum(), "inside": (pairs & inside).sum(),
            "moved_pairs": (pairs & moved).sum(), "moved_inside": (pairs & inside & moved).sum(),
            "own": np.nansum(about), "own_freedom": np.maximum(pairs.sum(axis=0) - 1, 0).sum(),
        })  # fmt: skip
    return np.stack(plans), pd.DataFrame(rows)


def scale80(trained: Trained, setting: Setting, s: int) -> float:
    """Factor on deviations with which 80 % of the errors out of fold lie inside; these are not normal."""
    learned = trained.out_of_fold
    assert learned is not None
    known = learned.known[s] & setting.allowed
    error = learned.log_time[s] - np.log(np.where(known, setting.T, 1.0))
    off = np.abs(error) / trained.calibration.log_sd[s][:, None]
    return float(np.quantile(off[known], 0.8)) / WIDTH80


def _note(seen: _Seen, task: int, cluster: int, off: float) -> None:
    seen.task.append(task)
    seen.cluster.append(cluster)
    seen.off.append(off)


def _related(seen: _Seen, points: TaskPoints, source: np.ndarray, j: int, way: Way) -> ObservedCells:
    """What was seen of the task's family, and of itself where that counts."""
    task, cluster, off = np.array(seen.task), np.array(seen.cluster), np.array(seen.off)
    keep = points.family[task] == points.family[j]
    if way.history == "others":
        keep &= source[task] != source[j]
    task, cluster, off = task[keep], cluster[keep], off[keep]
    return ObservedCells.of(points.take(task), cluster, off, np.full(len(task), way.assumed**2))


def _choose(
    belief: Belief, covariance: Floats, open_cells: np.ndarray, way: Way, price: float, rng: np.random.Generator
) -> tuple[int, int] | None:
    """The next cell, cluster and task; None where none is worth it."""
    if not open_cells.any():
        return None
    if way.choose == "random":
        i, q = np.argwhere(open_cells)[rng.integers(open_cells.sum())]
        return int(i), int(q)
    if way.choose == "variance":
        left = np.empty(open_cells.shape)
        for i in range(len(left)):
            after = measured(covariance, np.full(len(covariance), i), way.assumed**2)[1]
            left[i] = (own_variance(covariance) - own_variance(after)).mean(axis=1)
        score = np.where(open_cells, left, -np.inf)
    else:
        value, _ = cell_values(belief, covariance[None], way.assumed**2, price=price)
        score = np.where(open_cells, value[0], -np.inf)
        if score.max() <= way.worth:
            return None
    i, q = np.unravel_index(int(score.argmax()), score.shape)
    return int(i), int(q)
