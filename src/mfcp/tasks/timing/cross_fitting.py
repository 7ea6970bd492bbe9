"""Networks over operators that each leave out a fold of families, so that every label is learned and none is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings, Weights
from mfcp.tasks.timing.operator_times import OperatorTimes, fit_rooflines
from mfcp.tasks.timing.roofline import Accelerator


def cross_fit(
    graphs: OperatorGraphs,
    accelerators: tuple[Accelerator, ...],
    steps: MeasuredSteps,
    fold: Ints,
    batch: Floats,
    *,
    seed: int,
    settings: TimingSettings,
    advance: Callable[[], Any] = lambda: None,
) -> tuple[OperatorTimes, Floats]:
    """Train a network per fold on the other folds' tasks.

    Their mean predicts tasks that none of them saw; as good as networks trained on all folds, at two thirds of the
    work (docs/decisions/0077).

    Args:
        graphs: hold the tasks' graphs.
        accelerators: M, public figures of the clusters.
        steps: of n tasks, on every cluster in at least one fold but one.
        fold: (n,) fold of each task to learn from, whole families together; -1 for tasks that are not looked at.
        batch: (M, n) samples of the steps that are predicted.
        seed: of weights and order.
        settings: of a network, and the weight of the roofline; `members` is the number of folds.
        advance: called once per epoch and network.

    Returns:
        Networks and rooflines of all folds, and (M, n) log seconds of a step of each task to learn from, by the network
        and rooflines without its fold; 0 for other tasks.
    """
    single = settings.model_copy(update={"members": 1})
    operators = graphs.distinct.take(steps.graph)
    members: list[Weights] = []
    left_out = np.zeros(steps.seconds.shape)
    for f in np.unique(fold[fold >= 0]):
        own = np.flatnonzero(fold == f)
        fitted = OperatorTimes.fit(
            graphs,
            accelerators,
            steps.select((fold >= 0) & (fold != f)),
            seed=int(1000 * seed + f),
            settings=single,
            advance=advance,
        )
        left_out[:, own] = fitted.log_seconds(operators.take(own), batch[:, own])
        members += fitted.members
    known = np.flatnonzero(fold >= 0)
    rooflines = fit_rooflines(operators.take(known), fitted.accelerators, steps.select(known))
    every = settings.model_copy(update={"members": len(members)})
    return replace(fitted, settings=every, members=tuple(members), rooflines=rooflines), left_out
