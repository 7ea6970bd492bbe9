"""Expected maximum and expected shortfall of normal random variables.

`greater` and `shortfall` hold the formulas in plain arithmetic, which numbers, arrays, tensors and compiled kernels
share; their caller brings the density φ and the distribution function Φ. `expected_maximum` and `expected_shortfall`
apply them to numpy arrays, in double precision, and to tensors, with finite derivatives in single precision too.

.. [Clark1961] C. E. Clark, "The greatest of a finite set of random variables", Operations Research 9(2), 1961.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from mfcp.arrays import Floats

AT_ZERO = 0.3989422804014327  # φ(0) = 1 / √(2π)
TAIL = 38.0  # deviations beyond which Φ(-z) underflows in double precision
LEAST_VARIANCE = 1e-300

Array = TypeVar("Array", "Floats", "Tensor")

_TENSOR_TAIL = 13.0  # the same in single precision, in which predictors train
_TENSOR_LEAST_VARIANCE = 1e-12  # below, derivatives overflow


def greater(mean: Any, variance: Any, other: Any, other_variance: Any, deviation: Any, density: Any, above: Any) -> Any:
    """Mean and variance of the greater of two independent normals X and Y, Eqs. (2)-(4) of [Clark1961]_.

    Args:
        mean, variance: of X.
        other, other_variance: of Y.
        deviation: standard deviation of X - Y.
        density, above: φ and Φ of (mean - other) / deviation.

    Returns:
        (mean, variance), the variance up to rounding: it may be a little below 0.
    """
    first = mean * above + other * (1 - above) + deviation * density
    second = (mean * mean + variance) * above + (other * other + other_variance) * (1 - above)
    second = second + (mean + other) * deviation * density
    return first, second - first * first


def shortfall(distance: Any, deviation: Any, density: Any, below: Any) -> Any:
    """E[max(0, -X)] of a normal X with mean `distance`.

    Args:
        distance, deviation: mean and standard deviation of X.
        density, below: φ and Φ of -distance / deviation.
    """
    return deviation * density - distance * below


def density(z: Any) -> Any:
    """φ(z) of an array or a tensor."""
    return _library(z).exp(-0.5 * z * z) * AT_ZERO


def expected_maximum(mean: Array, variance: Array) -> Array:
    """E[max_i load_i] of independent normal loads: `greater`, one load after the other.

    The running maximum is taken for normal, which is exact for two loads and an approximation beyond.

    Args:
        mean: (..., M, P) seconds.
        variance: (..., M, P) seconds².

    Returns:
        (..., P) seconds.
    """
    library = _library(mean)
    tensors = library is not np
    least, tail = (_TENSOR_LEAST_VARIANCE, _TENSOR_TAIL) if tensors else (LEAST_VARIANCE, TAIL)
    top: Any = mean[..., 0, :]
    spread: Any = variance[..., 0, :]
    for i in range(1, mean.shape[-2]):
        other, other_spread = mean[..., i, :], variance[..., i, :]
        deviation = library.sqrt(library.clip(spread + other_spread, least, None))
        z = library.clip((top - other) / deviation, -tail, tail)
        top, spread = greater(top, spread, other, other_spread, deviation, density(z), _below(z))
        spread = library.clip(spread, 0.0, None)
    result: Array = top
    return result


def expected_shortfall(distance: Array, deviation: Array) -> Array:
    """E[max(0, -X)] of normal X with mean `distance`; max(0, -distance) where the deviation is 0.

    With `distance` = mean reliability - gamma it is the reliability that a plan is expected to lack.

    Args:
        distance, deviation: (...) of one shape, or of shapes that broadcast.
    """
    library = _library(distance)
    certain = deviation <= 0
    spread: Any = library.where(certain, 1.0, deviation)
    z = library.clip(distance / spread, -TAIL, TAIL)
    uncertain = shortfall(distance, spread, density(z), _below(-z))
    result: Array = library.where(certain, library.clip(-distance, 0.0, None), uncertain)
    return result


def _library(array: Any) -> Any:
    """numpy or torch, whichever the array is of; torch is not imported for numpy's sake."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else np


def _below(z: Any) -> Any:
    """Φ(z) of an array or a tensor."""
    library = _library(z)
    if library is not np:
        return library.special.ndtr(z)
    from scipy.special import ndtr

    return ndtr(z)
