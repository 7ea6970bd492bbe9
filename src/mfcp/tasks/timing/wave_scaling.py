"""A run on one cluster, scaled operator by operator to another one by public figures.

An operator of intensity x (FLOP per byte) takes, where R is the target's peak over its bandwidth (Yu et al., Habitat,
USENIX ATC 2021, Eqs. 1 to 3; waves times clock are taken as proportional to the peak),

    t' = t (D / D')^γ (P / P')^(1 - γ)        D bandwidth, P peak; γ = 1 - x / 2R below R, R / 2x above

Habitat measures every operator on the known cluster. A log has whole steps; so a step is split by what a fitted
roofline of the known cluster says of its operators. Launches, and what waits for memory, take what they took.
"""

from __future__ import annotations

import numpy as np

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.tasks.graphs.distinct import DistinctOperators
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.timing.roofline import Accelerator, FittedRoofline, roofline_seconds, waiting_seconds

_SHORTEST = 1e-12


def wave_scaled(
    operators: DistinctOperators, known: FittedRoofline, batch: Floats, seconds: Floats, target: Accelerator
) -> Floats:
    """(n,) log seconds of a step on the target.

    Args:
        operators: n graphs.
        known: the cluster where each has run, fitted to its runs.
        batch, seconds: (n,) samples and seconds of a step there; nan where it did not run.
        target: the other cluster's figures.

    Raises:
        DataError: batches or seconds that are not positive, or not as many as graphs.
    """
    n = operators.counts.shape[0]
    for name, values in (("batches", batch), ("seconds", seconds)):
        if values.shape != (n,) or (np.isfinite(values) & (values <= 0)).any():
            raise DataError(f"scaling: {n} graphs need as many {name}, positive or nan; check the runs")
    classes = len(CLASS_NAMES)
    efficiency, launch = np.exp(known.coefficients[:classes]), np.exp(known.coefficients[classes:])
    each = roofline_seconds(operators, [known.accelerator])[:, 0] * efficiency[operators.kind]
    samples = np.nan_to_num(batch, nan=1.0)
    ratio = _ratio(operators, known.accelerator, target)
    before, after = operators.of_steps(np.column_stack([each, each * ratio]), samples).T
    launches = operators.by_class(np.ones(len(operators.kind))) @ launch
    waits = [waiting_seconds(operators, own, samples) for own in (known.accelerator, target)]
    scaled = np.log(seconds) + np.log(np.maximum(after + launches + waits[1], _SHORTEST))
    result: Floats = scaled - np.log(np.maximum(before + launches + waits[0], _SHORTEST))
    return result


def _ratio(operators: DistinctOperators, known: Accelerator, target: Accelerator) -> Floats:
    """(U,) seconds of each operator on the target over those on the known cluster."""
    shared = np.where(operators.once, 1.0, target.batch)
    moved = operators.traffic * (target.element_bytes / 4) + 4 * operators.params / shared
    intensity = operators.flops / np.maximum(moved, 1.0)
    ridge = target.peak / target.bandwidth
    gamma = np.where(intensity < ridge, 1 - intensity / (2 * ridge), ridge / (2 * np.maximum(intensity, _SHORTEST)))
    ratio: Floats = (known.bandwidth / target.bandwidth) ** gamma * (known.peak / target.peak) ** (1 - gamma)
    return ratio
