"""How much faster a cluster gets through its tasks when it runs several side by side: zeta_i(n) of Eq. (16)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from mfcp.arrays import Floats
from mfcp.errors import DataError, SettingsError

if TYPE_CHECKING:
    from torch import Tensor

    Array = TypeVar("Array", Floats, Tensor)
else:
    Array = TypeVar("Array")


@dataclass(frozen=True)
class SpeedUp:
    """Factor on a cluster's summed time when it runs n tasks at once, from 1 for one task down to `floor`.

    zeta_i(n) = floor_i + (1 - floor_i) exp(-max(n - 1, 0) / decay_i), the decaying curve of [Huo2025]_ (1 → 0.6).
    n may be fractional, as the relaxed plan has it. Works on numpy arrays and torch tensors alike.

    Args:
        floor: factor for many tasks, in (0, 1]; one number, or one per cluster.
        decay: tasks over which the gain builds up, > 0; one number, or one per cluster.
    """

    floor: tuple[float, ...] = (0.6,)
    decay: tuple[float, ...] = (2.0,)

    def __init__(self, floor: ArrayLike = 0.6, decay: ArrayLike = 2.0) -> None:
        low, tasks = (np.atleast_1d(np.asarray(value, np.float64)) for value in (floor, decay))
        if low.ndim != 1 or tasks.ndim != 1:
            raise SettingsError("floor and decay must be numbers, or one per cluster")
        if not ((low > 0) & (low <= 1)).all():
            raise SettingsError(f"floor must lie in (0, 1], got {low.tolist()}")
        if not ((tasks > 0) & np.isfinite(tasks)).all():
            raise SettingsError(f"decay must be positive and finite, got {tasks.tolist()}")
        object.__setattr__(self, "floor", tuple(low.tolist()))
        object.__setattr__(self, "decay", tuple(tasks.tolist()))

    def __call__(self, n: Array) -> Array:
        """(..., M) factors for n (..., M) tasks at once."""
        floor, _, fall = self._parts(n)
        factor: Array = floor + (1 - floor) * fall
        return factor

    def slope(self, n: Array) -> Array:
        """(..., M) derivative of the factor; 0 up to one task."""
        floor, decay, fall = self._parts(n)
        slope: Array = (n > 1) * (floor - 1) / decay * fall
        return slope

    def bend(self, n: Array) -> Array:
        """(..., M) second derivative of the factor; 0 up to one task."""
        floor, decay, fall = self._parts(n)
        bend: Array = (n > 1) * (1 - floor) / decay**2 * fall
        return bend

    def table(self, clusters: int, tasks: int) -> Floats:
        """(M, N + 1) factors for 0 … N tasks at once: the `zeta` of `MatchingProblem`."""
        return np.array(self(np.arange(tasks + 1.0)[:, None] * np.ones(clusters)).T)

    @classmethod
    def fit(cls, n: ArrayLike, multiplier: ArrayLike, cluster: ArrayLike | None = None) -> SpeedUp:
        """The curve closest, in least squares, to co-location measurements.

        Args:
            n: (R,) tasks side by side, >= 1.
            multiplier: (R,) time of n tasks at once over the sum of their times alone.
            cluster: (R,) cluster index 0 … M - 1 of each measurement; default: one curve for all.

        Raises:
            DataError: shapes differ, values not finite, n below 1, or a cluster without two different n.
        """
        count, factor = np.asarray(n, np.float64), np.asarray(multiplier, np.float64)
        index = np.zeros(count.shape, np.int64) if cluster is None else np.asarray(cluster, np.int64)
        if count.ndim != 1 or not count.shape == factor.shape == index.shape:
            raise DataError(
                f"n, multiplier and cluster need one length, got {count.shape}, {factor.shape}, {index.shape}"
            )
        if not (np.isfinite(count) & np.isfinite(factor) & (count >= 1) & (factor > 0)).all():
            raise DataError("co-location measurements must be finite, with n >= 1 and multiplier > 0")
        fitted = [_fit_one(count[index == i], factor[index == i], i) for i in range(int(index.max(initial=-1)) + 1)]
        if not fitted:
            raise DataError("no co-location measurement to fit a speed-up curve to")
        return cls([floor for floor, _ in fitted], [decay for _, decay in fitted])

    def _parts(self, n: Any) -> tuple[Any, Any, Any]:
        if isinstance(n, np.ndarray | np.generic | int | float):
            beyond = np.maximum(np.asarray(n, np.float64) - 1, 0.0)
            floor, decay = np.array(self.floor), np.array(self.decay)
            return floor, decay, np.exp(-beyond / decay)
        floor, decay = n.new_tensor(self.floor), n.new_tensor(self.decay)
        return floor, decay, (-(n - 1).clamp_min(0.0) / decay).exp()


def _fit_one(count: Floats, factor: Floats, index: int) -> tuple[float, float]:
    from scipy.optimize import least_squares

    if len(np.unique(count)) < 2:
        raise DataError(f"cluster {index}: a speed-up curve needs measurements at two different n at least")

    def error(x: Floats) -> Floats:
        floor, decay = x
        value: Floats = floor + (1 - floor) * np.exp(-(count - 1) / decay) - factor
        return value

    found = least_squares(error, x0=[0.6, 2.0], bounds=([1e-3, 1e-2], [1.0, 1e3]))
    return float(found.x[0]), float(found.x[1])
