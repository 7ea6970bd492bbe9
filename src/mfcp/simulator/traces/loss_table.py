"""Losses of a trace's jobs, from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mfcp.errors import DataError
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.qore.training_losses import THRESHOLD, TrainingLosses
from mfcp.simulator.traces.files import numbers
from mfcp.simulator.traces.rates import read_named

EPOCHS = 1_000_000


def read_losses(path: Path, jobs: Jobs) -> TrainingLosses:
    """The loss after every epoch, from a table with `job` or `model`, `epoch` (from 1 on) and `loss`.

    `threshold` may say below which relative decline an epoch a job has converged; it is the same in all rows of one.

    Raises:
        DataError: a column that is missing, a cell that is wrong, epochs that are not 1, 2, 3, … each once, two
            thresholds of one job, or a job without any row.
    """
    named = read_named(path, jobs, ("epoch", "loss"))
    frame, row = named.frame, named.row
    epoch = numbers(path, frame, "epoch", least=1, below=EPOCHS, whole=True).astype(np.int64)
    loss = numbers(path, frame, "loss")
    threshold = np.full(len(frame), THRESHOLD)
    if "threshold" in frame:
        threshold = numbers(path, frame, "threshold", below=1)
    for bad in np.flatnonzero(loss <= 0)[:1]:
        raise DataError(f"{path}: row {bad + 1}: loss is 0; expected a number above 0")
    order = np.lexsort((epoch, row))
    first = np.searchsorted(row[order], np.arange(len(named.names)))
    place = np.arange(len(row)) - first[row[order]] + 1
    for bad in np.flatnonzero(epoch[order] != place)[:1]:
        raise DataError(
            f"{path}: row {order[bad] + 1}: epoch is {epoch[order[bad]]} and the one before it of "
            f"'{named.names[row[order[bad]]]}' {place[bad] - 1}; expected 1, 2, 3, … each once"
        )
    own = threshold[order[first]]
    for bad in np.flatnonzero(threshold != own[row])[:1]:
        raise DataError(
            f"{path}: row {bad + 1}: threshold is {threshold[bad]:g}, and {own[row[bad]]:g} in another row of "
            f"'{named.names[row[bad]]}'; expected one"
        )
    curves = tuple(np.split(loss[order], first[1:]))
    return TrainingLosses(curves, own, named.job_row)
