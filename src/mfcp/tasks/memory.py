"""Peak memory of a training step by a model's graph, and whether it will fit where memory is limited.

    peak = e_0 + max(e_1 W + e_2 s W,  e_3 W + s W + Σ_c e_c K_c + e_u U + e_l L)

There are two moments at which it may be reached. When the optimizer steps there are W bytes of weights, their
gradients, s numbers that the optimizer keeps of each (one of SGD with momentum, two of Adam), and what it needs for a
while. When the backward pass begins there are weights, numbers of the optimizer, and the outputs of operators that it
needs: K_c bytes of those of class c. U are bytes of all other outputs, some of which are still there, and L those of
the largest one. An output is needed by an operator whose derivative is a function of what it reads, or of what it
writes. The maximum is smooth. All factors e are positive and shrunk towards what each would be if everything were kept
once. Horus and DNNMem (Gao et al., ESEC/FSE 2020) count alike, without fitting.

An allocation beyond a limit fails before or after the measured peak passes it, by what an allocator reserves. So the
probability of out-of-memory is normal in log(peak / limit), with a shift and a deviation of runs that had a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.graphs.operators import CLASS_NAMES, OPERATORS

OPTIMIZER_STATES = {"sgd": 1.0, "adamw": 2.0}
"""Numbers that an optimizer of the profiler keeps of each weight."""
# fmt: off
_NEEDS_INPUTS = (
    "convolution", "addmm", "mm", "linear", "bmm", "baddbmm", "matmul", "_scaled_dot_product_attention",
    "scaled_dot_product_attention", "native_batch_norm", "batch_norm", "native_layer_norm", "native_group_norm",
    "layer_norm", "group_norm", "linalg_vector_norm", "gelu", "silu", "hardswish", "hardsigmoid", "hardtanh",
    "leaky_relu", "mish", "elu", "prelu", "softplus", "glu", "clamp", "clamp_min", "clamp_max", "threshold", "mul",
    "div", "pow", "log", "sin", "cos", "abs", "addcmul", "addcdiv", "maximum", "minimum", "lerp", "var", "var_mean",
    "amax", "amin", "max", "min", "prod", "avg_pool2d", "max_pool2d_with_indices", "_adaptive_avg_pool2d",
    "adaptive_max_pool2d", "nll_loss_forward", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits", "_to_copy",
)
_NEEDS_OUTPUT = (
    "relu", "sigmoid", "tanh", "hardtanh", "_softmax", "_safe_softmax", "_log_softmax", "softmax", "sqrt", "rsqrt",
    "exp", "reciprocal", "amax", "amin", "prod", "linalg_vector_norm", "max_pool2d_with_indices", "native_dropout",
    "_scaled_dot_product_attention", "scaled_dot_product_attention",
)
# fmt: on
"""Operators whose backward pass in PyTorch needs what they read, and what they write."""
_BYTES = 4.0  # of a number in single precision
_BASE = 1e8  # bytes; a process that has loaded PyTorch takes a few of them
_LEAST = 1e-9
_SHARPNESS = 10.0  # of the maximum: two equal moments count for 1.07 of one
_USUAL_ERROR = 0.2  # of the log of a peak, beside which factors are drawn to their prior
_USUAL_MISS = 0.1  # deviation of log(peak / limit) at which a run fails, before any has
_PRIOR_SD = 1.0
_START = np.log(np.array([4.0, 3.0, 2.0, 1.3, *np.ones(len(CLASS_NAMES)), 0.1, 1.0]))
"""Base, the optimizer's moment by weights and its numbers, weights of the other, kept outputs, others, the largest."""


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
    """Log factors, in the order of the formula above."""

    coefficients: Floats

    @classmethod
    def fit(cls, graphs: OperatorGraphs, runs: TrainingRuns, peak: Floats) -> PeakMemory:
        """Learn from runs that ended well, by regularised least squares of log peaks.

        Args:
            graphs: what was trained.
            runs: n of them.
            peak: (n,) bytes.

        Raises:
            DataError: no run, or peaks that are not positive and finite.
        """
        from scipy.optimize import least_squares

        if len(peak) != len(runs) or not len(runs) or not (np.isfinite(peak) & (peak > 0)).all():
            raise DataError(f"peak memory: {len(runs)} runs need as many positive peaks; check the log")
        parts, target, pull = _Parts.of(graphs, runs), np.log(peak), _USUAL_ERROR / _PRIOR_SD

        def residual(x: Floats) -> Floats:
            return np.concatenate([np.log(parts.peak(x)) - target, pull * (x - _START)])

        def jacobian(x: Floats) -> Floats:
            return np.concatenate([parts.log_slopes(x), pull * np.eye(len(x))])

        return cls(least_squares(residual, _START, jac=jacobian, method="trf", max_nfev=200).x)

    @staticmethod
    def parts() -> int:
        """How many factors there are."""
        return len(_START)

    def predict(self, graphs: OperatorGraphs, runs: TrainingRuns) -> Floats:
        """(n,) bytes."""
        return _Parts.of(graphs, runs).peak(self.coefficients)


@dataclass(frozen=True)
class _Parts:
    """Bytes of n runs before any factor: (n,) weights and numbers of the optimizer, (n, C + 2) outputs."""

    weights: Floats
    states: Floats
    outputs: Floats

    @classmethod
    def of(cls, graphs: OperatorGraphs, runs: TrainingRuns) -> _Parts:
        """Count."""
        if not (np.isfinite(runs.batch) & (runs.batch > 0)).all():
            raise DataError("peak memory: batches must be positive; check the runs")
        G, C = len(graphs.graph_id), len(CLASS_NAMES)
        place = np.where(kept_outputs(graphs), graphs.kind, C)  # others come after the classes
        cell = graphs.graph * (C + 1) + place
        repeated, once = (
            np.bincount(cell, np.where(graphs.once == own, graphs.numel, 0.0), G * (C + 1)).reshape(G, C + 1)
            for own in (False, True)
        )
        largest = np.zeros(G)
        np.maximum.at(largest, graphs.graph, np.where(graphs.once, 0.0, graphs.numel))
        weights = _BYTES * np.bincount(graphs.graph, graphs.params, G)[runs.graph]
        batch = runs.batch[:, None]
        outputs = _BYTES * (batch * repeated[runs.graph] + once[runs.graph])
        every = np.concatenate([outputs, _BYTES * batch * largest[runs.graph, None]], axis=1)
        return cls(np.maximum(weights, _LEAST), np.maximum(runs.states * weights, _LEAST), np.maximum(every, _LEAST))

    def peak(self, x: Floats) -> Floats:
        """(n,) bytes under log factors."""
        e = np.exp(x)
        return np.asarray(_BASE * e[0] + self._moments(e)[0])

    def log_slopes(self, x: Floats) -> Floats:
        """(n, K) derivatives of log bytes by log factors."""
        e = np.exp(x)
        larger, stepping, beginning = self._moments(e)
        by_stepping, by_beginning = ((each / larger) ** (_SHARPNESS - 1) for each in (stepping, beginning))
        slopes = np.column_stack([
            np.full(len(larger), _BASE), by_stepping * self.weights, by_stepping * self.states,
            by_beginning * self.weights, by_beginning[:, None] * self.outputs,
        ])  # fmt: skip
        return np.asarray(slopes * e / (_BASE * e[0] + larger)[:, None])

    def _moments(self, e: Floats) -> tuple[Floats, Floats, Floats]:
        """(n,) bytes beyond the base: of the larger moment, when the optimizer steps, when the backward pass begins."""
        stepping = self.weights * e[1] + self.states * e[2]
        beginning = self.weights * e[3] + self.states + self.outputs @ e[4:]
        high = np.maximum(stepping, beginning)
        ratio = np.minimum(stepping, beginning) / high
        return high * (1 + ratio**_SHARPNESS) ** (1 / _SHARPNESS), stepping, beginning


def kept_outputs(graphs: OperatorGraphs) -> Bools:
    """(n,) operators whose output a backward pass needs: its own, or that of one which reads it."""
    inputs, outputs = (np.isin(OPERATORS, names)[graphs.operator] for names in (_NEEDS_INPUTS, _NEEDS_OUTPUT))
    producer, consumer = graphs.edges
    kept = outputs.copy()
    kept[producer[inputs[consumer]]] = True
    return np.asarray(kept)


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
