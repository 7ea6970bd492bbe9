"""The scale of features: mean 0 and deviation 1 over training tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats


@dataclass(frozen=True)
class Scale:
    """Means and deviations (..., 1, d) of features over training tasks; one that tells nothing has deviation 0."""

    mean: Floats
    deviation: Floats

    @staticmethod
    def of(Z: Floats, train: Bools) -> Scale:
        """The scale of features (S, n, d), with training tasks (S, n)."""
        weight = train[:, :, None] / train.sum(axis=1)[:, None, None]
        mean = (Z * weight).sum(axis=1, keepdims=True)
        deviation = np.sqrt((((Z - mean) ** 2) * weight).sum(axis=1, keepdims=True))
        return Scale(mean, np.where(deviation > 1e-9, deviation, 0.0))

    def standard(self, Z: Floats) -> Floats:
        """Features (..., n, d) with mean 0 and deviation 1 over training tasks, cut at ±5; nan where unknown.

        The cut keeps one unseen extreme from leaving the region that the predictors were trained in.
        """
        tells = self.deviation > 0
        scaled = (Z - self.mean) / np.where(tells, self.deviation, 1.0)
        result: Floats = np.clip(np.where(tells, scaled, 0.0), -5.0, 5.0)
        return result

    def apply(self, Z: Floats) -> Floats:
        """The same, but unknown features are average."""
        result: Floats = np.nan_to_num(self.standard(Z))
        return result


def standardise(Z: Floats, train: Bools) -> Floats:
    """(S, n, d) features with mean 0 and deviation 1 over each seed's training tasks, cut at ±5."""
    return Scale.of(Z, train).apply(Z)
