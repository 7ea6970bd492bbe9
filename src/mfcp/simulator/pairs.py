"""How fast two jobs run that share their accelerators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError


@dataclass(frozen=True)
class JobPairs:
    """What was measured of two jobs on the same accelerators at once.

    Attributes:
        kind: (n,) which of T kinds each job is.
        speed: (T, T, K, 2) of a job of the first kind that was submitted before one of the second, and of that one, on
            each type of accelerator, in the unit of `speed` of `mfcp.simulator.simulation.simulate`; 0 where they
            cannot run together.

    Raises:
        DataError: a kind that the table does not have, or a speed that is not a number of at least 0.
    """

    kind: Ints
    speed: Floats

    def __post_init__(self) -> None:
        """Check what a run relies on."""
        kinds = len(self.speed)
        if self.speed.ndim != 4 or self.speed.shape[1] != kinds or self.speed.shape[3] != 2:
            raise DataError(f"speeds of pairs: expected the shape (T, T, K, 2), got {self.speed.shape}")
        if len(self.kind) and not 0 <= self.kind.min() <= self.kind.max() < kinds:
            raise DataError(f"pairs: expected kinds 0 to {kinds - 1}, got {self.kind.min()} to {self.kind.max()}")
        if not (np.isfinite(self.speed).all() and (self.speed >= 0).all()):
            raise DataError("speeds of pairs: expected numbers of at least 0")
