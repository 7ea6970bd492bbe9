"""A linear correction with Gaussian coefficients: what few runs say about a new cluster's log times."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from mfcp.arrays import Floats, Ints

_LEVEL_SD = 1.0  # of log time, of levels that runs are to find
_FARTHEST = 2.0  # standard deviations of the reference
_FREEDOM = 4.0  # degrees of freedom of the noise
_QUANTILE = 2.132 / 1.645  # a normal with this many scales as its sd has the 90 % interval of Student's t, 4 degrees
_USUAL_NOISE, _USUAL_SHARE, _LEAST_NOISE = 0.1, 0.3, 0.03
_ROUNDS = 10


@dataclass(frozen=True)
class Head:
    """A linear correction of d columns: level + Σ (column - centre) · width · coefficient.

    Columns count up to two standard deviations of the reference from its mean: a few runs say nothing about the
    effect of more, and unseen kinds of models are where they would be believed.

    Args:
        centre, reach, width: (d,) of the columns: mean, how far from there they count, and the standard deviation
            expected of the effect of one unit.
        mean, covariance: (d + 1,) and (d + 1, d + 1) of the coefficients, level first; without runs N(0, 1) each.
        noise_sd: what the coefficients leave.
    """

    centre: Floats
    reach: Floats
    width: Floats
    mean: Floats
    covariance: Floats
    noise_sd: Floats

    @classmethod
    def start(cls, reference: Floats, width: Floats) -> Head:
        """Nothing known yet; columns are centred on those (n, d) of reference graphs."""
        size, reach = len(width) + 1, _FARTHEST * reference.std(axis=0)
        return cls(reference.mean(axis=0), reach, width, np.zeros(size), np.eye(size), np.array(0.0))

    def update(self, columns: Floats, target: Floats) -> Head:
        """The head that knows runs: (n, d) columns and (n,) what their log times are above the prior."""
        mean, covariance, noise_sd = _posterior(self._phi(columns), target)
        return replace(self, mean=mean, covariance=covariance, noise_sd=noise_sd)

    def correct(self, columns: Floats) -> tuple[Floats, Floats]:
        """(n,) what to add to the prior and (n,) its standard deviation, noise included."""
        phi = self._phi(columns)
        variance = np.einsum("nd,nd->n", phi @ self.covariance, phi) + self.noise_sd**2
        return phi @ self.mean, np.sqrt(variance)

    def stand_for_all(self, columns: Floats, count: int, seed: int) -> Ints:
        """(min(count, n),) rows of (n, d) columns that are worth a run: those nearest to the centres of as many groups.

        Groups are those of k-means on what the head sees, whose unit is the effect that it expects of a column. So
        odd rows, which would tell most about their own columns and little about the others', are not preferred.
        """
        from scipy.cluster.vq import kmeans2
        from scipy.spatial.distance import cdist

        phi = self._phi(columns)[:, 1:]
        if count >= len(phi):
            return np.arange(len(phi))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "One of the clusters is empty")  # equal rows; its centre then stays
            centres = kmeans2(phi, count, minit="++", rng=seed)[0]
        distance, chosen = cdist(phi, centres), np.empty(count, np.int64)
        for group in range(count):
            chosen[group] = distance[:, group].argmin()
            distance[chosen[group]] = np.inf  # no row twice
        return chosen

    def _phi(self, columns: Floats) -> Floats:
        scaled = np.clip(columns - self.centre, -self.reach, self.reach) * self.width
        return np.column_stack([np.full(len(scaled), _LEVEL_SD), scaled])


def _posterior(phi: Floats, target: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean and covariance of N(0, 1) coefficients, and the noise, by expectation maximisation of Student's t.

    The noise keeps a share of a usual one: the columns of runs come from networks that have mostly seen those tasks'
    families on other clusters, those of a task to predict do not.
    """
    cover, weight, scale = phi @ phi.T, np.ones(len(phi)), _USUAL_NOISE
    for _ in range(_ROUNDS):
        gain = np.linalg.solve(cover + np.diag(scale**2 / weight), cover).T
        square = (target - gain @ target) ** 2 + np.diag(cover - gain @ cover)
        weight = (_FREEDOM + 1) / (_FREEDOM + square / scale**2)
        seen = max(float((weight * square).mean()), _LEAST_NOISE**2)
        scale = float(np.sqrt((1 - _USUAL_SHARE) * seen + _USUAL_SHARE * _USUAL_NOISE**2))
    gain = np.linalg.solve(cover + np.diag(scale**2 / weight), phi).T
    return gain @ target, np.eye(phi.shape[1]) - gain @ phi, np.array(_QUANTILE * scale)
