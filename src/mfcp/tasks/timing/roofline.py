"""Rooflines: what public figures of an accelerator say about an operator's time, and how efficient it really is.

An operator on b samples takes at least max(b · flops / peak, (b · activations + weights) / bandwidth) seconds, one that
the batch does not repeat as much as on one sample. Real ones take longer, by a factor that depends on the class of
operator, and each launch costs time of its own. Where channels come in turn (`mfcp.tasks.graphs.channels_in_turn`) they
wait for memory, C of them for each sample, unless models are compiled:

    t = Σ_c e_c R_c + l_c N_c + b C w       R_c roofline seconds of the operators of class c, N_c how many; w .3 us
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.tasks.graphs.distinct import DistinctOperators
from mfcp.tasks.graphs.operators import CLASS_NAMES, OPERATORS

LOAD = 3e-7
"""Seconds until a GPU has what it reads from memory; a typical one, of which no log tells."""
LAUNCH = 5e-6
"""Seconds of a launch before anything is measured: a typical one of eager PyTorch."""
_SHORTEST = 1e-12
_USUAL_ERROR = 0.2  # of log time
_FUSED = 0.7  # of the seconds that memory needs for arithmetic
_TELLING = 20  # steps from which that is believed
_ARITHMETIC = CLASS_NAMES.index("arithmetic")
_LOOKED_UP = OPERATORS.index("embedding")


@dataclass(frozen=True)
class Accelerator:
    """Public figures of a cluster's accelerator.

    Args:
        peak: FLOP/s in the precision that is used.
        bandwidth: bytes/s of its memory.
        element_bytes: of an activation: 2 in half precision, 4 in single.
        batch: samples of a typical step, over which the reading of weights is shared.
        compiled: models are compiled for it; else operators are PyTorch's own, and some go through channels in turn.

    Raises:
        DataError: a figure that is not positive and finite.
    """

    peak: float
    bandwidth: float
    element_bytes: float = 4.0
    batch: float = 1.0
    compiled: bool = False

    def __post_init__(self) -> None:
        for name in ("peak", "bandwidth", "element_bytes", "batch"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise DataError(f"accelerator: {name} is {value}, expected a positive number; look it up and add it")


def roofline_seconds(operators: DistinctOperators, accelerators: Sequence[Accelerator]) -> Floats:
    """(U, M) seconds of each operator, per sample of each accelerator's typical batch; of a step where it runs once."""
    columns = []
    for a in accelerators:
        sharing = np.where(operators.once, 1.0, a.batch)
        traffic = operators.traffic * (a.element_bytes / 4) + 4 * operators.params / sharing
        columns.append(np.maximum(operators.flops / a.peak, traffic / a.bandwidth))
    return np.stack(columns, axis=1)


def load_seconds(operators: DistinctOperators, accelerators: Sequence[Accelerator]) -> Floats:
    """(U, M) seconds that each operator waits for memory where channels come in turn, as in `roofline_seconds`."""
    result: Floats = LOAD * operators.in_turn[:, None] * [not a.compiled for a in accelerators]
    return result


def waiting_seconds(operators: DistinctOperators, accelerator: Accelerator, batch: Floats) -> Floats:
    """(n,) seconds that a step of `batch` (n,) samples waits for memory where channels come in turn."""
    return operators.of_steps(load_seconds(operators, [accelerator]), batch)[:, 0]


def graph_roofline(operators: DistinctOperators, accelerators: Sequence[Accelerator], batch: Floats) -> Floats:
    """(M, n) log seconds of a step of `batch` (M, n) samples, all operators at the roofline and 5 us a launch."""
    seconds, launches = roofline_seconds(operators, accelerators), operators.counts.sum(axis=1)
    work = np.stack([operators.of_steps(own[:, None], b)[:, 0] for own, b in zip(seconds.T, batch, strict=True)])
    waiting = np.stack([waiting_seconds(operators, a, b) for a, b in zip(accelerators, batch, strict=True)])
    result: Floats = np.log(np.maximum(work + waiting + LAUNCH * launches, _SHORTEST))
    return result


@dataclass(frozen=True)
class FittedRoofline:
    """One accelerator's efficiencies: (2C,) log factors of roofline seconds by class, then log seconds a launch.

    Whether models are compiled for it is what its steps told.
    """

    accelerator: Accelerator
    coefficients: Floats

    def log_seconds(self, operators: DistinctOperators, batch: Floats) -> Floats:
        """(n,) predicted log seconds of a step of `batch` (n,) samples."""
        work = _parts(operators, self.accelerator, batch) @ np.exp(self.coefficients)
        result: Floats = np.log(work + waiting_seconds(operators, self.accelerator, batch))
        return result


def fit_roofline(
    operators: DistinctOperators, accelerator: Accelerator, batch: Floats, seconds: Floats, *, prior_sd: float = 1.0
) -> FittedRoofline:
    """Positive efficiencies by least squares of log time, each shrunk towards factor 1 and 5 us a launch.

    Models are compiled where arithmetic takes less time than memory needs: it is done along with what is before it.

    Args:
        operators: n graphs.
        accelerator: public figures.
        batch, seconds: (n,) samples and seconds of a measured step.
        prior_sd: how far a log factor is expected to be from 0, in units of 0.2, a usual error of log time.
    """
    start = np.concatenate([np.zeros(len(CLASS_NAMES)), np.full(len(CLASS_NAMES), np.log(LAUNCH))])
    parts = _parts(operators, accelerator, batch)
    spread = np.full(len(start), prior_sd)
    found = fit_factors(parts, seconds, start, spread)
    fuses = len(seconds) >= _TELLING and bool(np.exp(found[_ARITHMETIC]) < _FUSED)
    told = replace(accelerator, compiled=accelerator.compiled or fuses)
    waiting = waiting_seconds(operators, told, batch)
    return FittedRoofline(told, fit_factors(parts, seconds, start, spread, waiting) if waiting.any() else found)


def fit_factors(parts: Floats, seconds: Floats, start: Floats, prior_sd: Floats, rest: Floats | float = 0.0) -> Floats:
    """(K,) log factors x of times `parts @ exp(x) + rest`, by regularised least squares of log time.

    Args:
        parts: (n, K) of each measurement, not negative.
        seconds: (n,) measured.
        start: (K,) log factors before any measurement.
        prior_sd: (K,) how far each is expected to be from there, where the model's error of log time is 0.2.
        rest: (n,) seconds that no factor changes.
    """
    from scipy.optimize import least_squares

    target, pull = np.log(seconds), _USUAL_ERROR / prior_sd

    def residual(x: Floats) -> Floats:
        return np.concatenate([np.log(parts @ np.exp(x) + rest) - target, pull * (x - start)])

    def jacobian(x: Floats) -> Floats:
        share = parts * np.exp(x)
        return np.concatenate([share / (share.sum(axis=1) + rest)[:, None], np.diag(pull)])

    found: Floats = least_squares(residual, start, jac=jacobian, method="trf", max_nfev=200).x
    return found


def class_parts(
    operators: DistinctOperators, peak: Floats | float, bandwidth: float, element_bytes: Floats | float, batch: Floats
) -> Floats:
    """(n, 2C) of a step of `batch` (n,) samples: roofline seconds by class of operator, then launches by class.

    Each operator is at its own bound. Weights are read once a step, whatever the batch; of an embedding only the rows
    that are looked up count.

    Args:
        operators: n graphs with U distinct operators.
        peak: (U,) FLOP/s for each operator, or one number.
        bandwidth: bytes/s.
        element_bytes: (U,) bytes of an activation's element, or one number.
        batch: (n,) samples.
    """
    counts = operators.counts.tocoo()
    row, u = counts.coords
    weights = 4.0 * np.where(operators.operator == _LOOKED_UP, 0.0, operators.params)
    samples = np.where(operators.once[u], 1.0, batch[row])
    compute, traffic = operators.flops / peak, operators.traffic * (np.asarray(element_bytes) / 4)
    seconds = np.maximum(samples * compute[u], (samples * traffic[u] + weights[u]) / bandwidth)
    size = len(CLASS_NAMES)
    cell = np.bincount(row * size + operators.kind[u], counts.data * seconds, len(batch) * size)
    launches = operators.by_class(np.ones(len(operators.kind)))
    return np.concatenate([np.maximum(cell.reshape(-1, size), _SHORTEST), launches], axis=1)


def _parts(operators: DistinctOperators, a: Accelerator, batch: Floats) -> Floats:
    return class_parts(operators, a.peak, a.bandwidth, a.element_bytes, batch)
