"""Peak memory of a training step by a model's graph, and whether it will fit where memory is limited.

    peak = e_0 + e_1 W + e_2 s W + Σ_c e_c b A_c + e_l b A_l

W bytes of the weights, whose gradients come with them; s numbers that the optimizer keeps of each weight (one of SGD
with momentum, two of Adam); A_c bytes of the outputs of operators of class c, of one sample of b, that the backward
pass may need; A_l the largest one. All factors e are positive and shrunk towards what each would be if everything were
kept once. Horus and DNNMem (Gao et al., ESEC/FSE 2020) count alike, without fitting.

An allocation beyond a limit fails before or after the measured peak passes it, by what an allocator reserves. So the
probability of out-of-memory is normal in log(peak / limit), with a shift and a deviation of runs that had a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.timing.roofline import fit_factors

OPTIMIZER_STATES = {"sgd": 1.0, "adamw": 2.0}
"""Numbers that an optimizer of the profiler keeps of each weight."""
_BYTES = 4.0  # of a number in single precision
_BASE = 1e8  # bytes; a process that has loaded PyTorch takes a few of them
_LEAST = 1e-9
_USUAL_MISS = 0.1  # deviation of log(peak / limit) at which a run fails, before any has
_PRIOR_SD = 1.0


@dataclass(frozen=True)
class TrainingRuns:
    """n training runs in single precision.

    Attributes:
        graph: (n,) positions in the graphs.
        batch: (n,) samples of a step.
        states: (n,) numbers that the optimizer keeps of each weight.
    """

    graph: Ints
    batch: Floats
    states: Floats

    def __len__(self) -> int:
        """How many."""
        return len(self.graph)

    def take(self, rows: Ints | Bools) -> TrainingRuns:
        """Some of them."""
        return TrainingRuns(self.graph[rows], self.batch[rows], self.states[rows])


@dataclass(frozen=True)
class PeakMemory:
    """Log factors of the parts: base, weights, optimizer, classes of operators, largest output."""

    coefficients: Floats

    @classmethod
    def fit(cls, graphs: OperatorGraphs, runs: TrainingRuns, peak: Floats) -> PeakMemory:
        """Learn from runs that ended well.

        Args:
            graphs: what was trained.
            runs: n of them.
            peak: (n,) bytes.

        Raises:
            DataError: no run, or peaks that are not positive and finite.
        """
        if len(peak) != len(runs) or not len(runs) or not (np.isfinite(peak) & (peak > 0)).all():
            raise DataError(f"peak memory: {len(runs)} runs need as many positive peaks; check the log")
        start = np.log(np.concatenate([[4.0, 3.0, 1.0], np.ones(len(CLASS_NAMES) + 1)]))
        return cls(fit_factors(_parts(graphs, runs), peak, start, np.full(len(start), _PRIOR_SD)))

    @staticmethod
    def parts() -> int:
        """How many factors there are."""
        return len(CLASS_NAMES) + 4

    def predict(self, graphs: OperatorGraphs, runs: TrainingRuns) -> Floats:
        """(n,) bytes."""
        predicted: Floats = _parts(graphs, runs) @ np.exp(self.coefficients)
        return predicted


def _parts(graphs: OperatorGraphs, runs: TrainingRuns) -> Floats:
    """(n, 4 + C) bytes of what is kept, before any factor."""
    if not (np.isfinite(runs.batch) & (runs.batch > 0)).all():
        raise DataError("peak memory: batches must be positive; check the runs")
    G, C = len(graphs.graph_id), len(CLASS_NAMES)
    cell = graphs.graph * C + graphs.kind
    repeated, once = (
        np.bincount(cell, np.where(graphs.once == own, graphs.numel, 0.0), G * C).reshape(G, C) for own in (False, True)
    )
    largest = np.zeros(G)
    np.maximum.at(largest, graphs.graph, np.where(graphs.once, 0.0, graphs.numel))
    weights = _BYTES * np.bincount(graphs.graph, graphs.params, G)[runs.graph]
    batch = runs.batch[:, None]
    outputs = _BYTES * (batch * repeated[runs.graph] + once[runs.graph])
    columns = [np.full((len(runs), 1), _BASE), weights[:, None], (runs.states * weights)[:, None], outputs,
               _BYTES * batch * largest[runs.graph, None]]  # fmt: skip
    parts: Floats = np.maximum(np.concatenate(columns, axis=1), _LEAST)
    return parts


@dataclass(frozen=True)
class MemoryRisk:
    """How log(peak / limit) becomes a probability: shift and deviation."""

    shift: float
    sd: float

    @classmethod
    def fit(cls, predicted: Floats, limit: Floats, failed: Bools) -> MemoryRisk:
        """Learn from runs that had a limit.

        Args:
            predicted: (n,) bytes of their peaks, by a predictor that did not learn from them.
            limit: (n,) bytes.
            failed: (n,) which ended for want of memory.

        Raises:
            DataError: numbers that are not positive and finite.
        """
        from scipy.optimize import minimize
        from scipy.stats import norm

        margin = _margin(predicted, limit)

        def surprise(x: Floats) -> float:
            z = (margin - x[0]) / np.exp(x[1])
            told = np.where(failed, norm.logcdf(z), norm.logsf(z)).sum()
            return float(-told + (x[0] / _USUAL_MISS) ** 2 / 2 + (x[1] - np.log(_USUAL_MISS)) ** 2 / 2)

        shift, log_sd = minimize(surprise, [0.0, np.log(_USUAL_MISS)], method="Nelder-Mead").x
        return cls(float(shift), float(np.exp(log_sd)))

    def risk(self, predicted: Floats, limit: Floats) -> Floats:
        """(n,) probability that a run of so many predicted bytes does not fit."""
        from scipy.special import ndtr

        probability: Floats = ndtr((_margin(predicted, limit) - self.shift) / self.sd)
        return probability


def _margin(predicted: Floats, limit: Floats) -> Floats:
    for name, values in (("predicted peaks", predicted), ("limits", limit)):
        if not (np.isfinite(values) & (values > 0)).all():
            raise DataError(f"memory: {name} must be positive and finite; check the runs")
    margin: Floats = np.log(predicted / limit)
    return margin
