"""Losses of n jobs that train: when each has converged, and what can be told of it from the losses so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.simulator.qore.equations import LOSSES
from mfcp.simulator.qore.loss_curves import FITS, Curve, Form, converged_at, epochs_left

THRESHOLD = 0.01
"""Relative decline of the loss an epoch below which a job has converged, where nobody says; read (Qore-DL)."""
FEWEST = 3
"""Losses without which no curve is fitted."""
SURE = 2 * LOSSES
"""Losses before which the end of a curve is not believed: chosen on runs apart, see `benchmarks/convergence.py`."""
FALL = 9.0
"""Of `assumed_loss`: down to a tenth."""


def assumed_loss(part: Floats | float) -> Floats:
    """The loss after a part of all epochs, over the first, where nobody has measured it: 1 / (1 + 9 p), SLAQ's form."""
    return np.asarray(1.0 / (1.0 + FALL * part))


@dataclass(frozen=True)
class TrainingLosses:
    """Of c trainings, and which of them each job is.

    Attributes:
        curves: c arrays (E,): the loss after every epoch that the user allows; positive.
        threshold: (c,) relative decline an epoch below which it has converged.
        of: (n,) the training of each job.
        form: of the curves that are fitted.
    """

    curves: tuple[Floats, ...]
    threshold: Floats
    of: Ints
    form: Form = "power"
    _fits: dict[tuple[Form, int, int], tuple[int, Curve | None]] = field(default_factory=dict, repr=False)

    @cached_property
    def ends(self) -> Floats:
        """(n,) part of all its epochs after which a job has converged; 1 if that is after none."""
        found = [
            (converged_at(curve, threshold) or len(curve)) / len(curve)
            for curve, threshold in zip(self.curves, self.threshold, strict=True)
        ]
        return np.array(found)[self.of]

    def left(self, rows: Ints, done: Floats) -> Floats:
        """(k,) part of all epochs that jobs still need, told from their losses after a part (k,) of them.

        All that the user allows, while there are fewer than `SURE` losses.
        """
        result = np.empty(len(rows))
        for i, (training, part) in enumerate(zip(self.of[rows].tolist(), done.tolist(), strict=True)):
            limit = len(self.curves[training])
            epochs = self._epochs(training, part)
            further = self._told(training, epochs)[0] if epochs >= SURE else limit - epochs
            result[i] = max(epochs + further - part * limit, 0.01 * limit) / limit
        return result

    def falls(self, rows: Ints, done: Floats, further: Floats) -> Floats:
        """(k, C) how far losses are expected to fall in a further part (k, C) of all epochs, after a part (k,).

        Over the largest change of an epoch so far, as SLAQ makes losses of different kinds comparable.
        """
        result = np.empty_like(further)
        for i, (training, part) in enumerate(zip(self.of[rows].tolist(), done.tolist(), strict=True)):
            losses = self.curves[training]
            epochs = self._epochs(training, part)
            _, curve = self._told(training, epochs)
            if curve is None:
                first = 1 - assumed_loss(1 / len(losses))
                result[i] = (assumed_loss(part) - assumed_loss(np.minimum(part + further[i], 1.0))) / first
                continue
            seen = losses[:epochs]
            ahead = np.minimum(epochs + further[i] * len(losses), len(losses))
            largest = max(float(np.abs(np.diff(seen)).max()), 1e-12)
            result[i] = seen[-1] * np.maximum(1 - curve(ahead) / curve(np.array(float(epochs))), 0.0) / largest
        return result

    def _epochs(self, training: int, part: float) -> int:
        """Whole ones."""
        return int(part * len(self.curves[training]) + 1e-9)

    def _told(self, training: int, epochs: int) -> tuple[int, Curve | None]:
        """How many epochs after so many are still needed, and along which curve."""
        key = self.form, training, epochs
        if key not in self._fits:
            losses, limit = self.curves[training][:epochs], len(self.curves[training])
            if epochs < FEWEST:
                self._fits[key] = limit - epochs, None
            else:
                curve = FITS[self.form](losses)
                self._fits[key] = epochs_left(losses, curve, float(self.threshold[training]), limit), curve
        return self._fits[key]
