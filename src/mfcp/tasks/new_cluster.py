"""A cluster that the log barely knows: times from its public figures and a handful of runs.

What is known of it are its accelerator's figures, hence a roofline, and how far the known clusters' times are from
*their* rooflines. With no run at all, that is the prediction: a *prior*, with the spread that the known clusters'
priors would have had. Runs then correct it, as a linear model with Gaussian coefficients in which few runs move little:

    log t = prior(x) + a + b · size(x) + Σ_i c_i (log t_i - log roofline_i)(x) + noise

t_i are predicted times on known clusters, that is, frozen features of the graph; the c_i say which of them this one
resembles. The scale of the c_i and the noise are averaged over a small grid by their evidence; the noise is expected
about where the known clusters' priors were off.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mfcp.errors import DataError
from mfcp.files import replacing
from mfcp.tasks.distinct import DistinctOperators
from mfcp.tasks.roofline import Accelerator, graph_roofline
from mfcp.tasks.timing import OperatorTimes

Floats = NDArray[np.float64]

_LEVEL_SD, _SLOPE_SD = 1.0, 0.1  # of levels that runs are to find; of log time per deviation of log size
_LEAST_LEVEL_SD = 0.3  # of a prior: figures say nothing about software, and a compiler alone is worth a factor
_COEFFICIENT_SD = (0.01, 0.03, 0.1, 0.3)
_NOISE_LOG_SD = 0.5
_NOISE_SD = (0.03, 0.06, 0.1, 0.15, 0.25, 0.4)
_FIGURE_SCALE = 1.0  # e-fold: clusters whose peak and bandwidth differ by more say little about each other


@dataclass(frozen=True)
class Prediction:
    """Log times of n tasks and how sure they are.

    Attributes:
        log_seconds: (n,) of a step.
        sd: (n,) standard deviation of log time.
        runs: how many runs of the cluster it rests on.
    """

    log_seconds: Floats
    sd: Floats
    runs: int

    @property
    def is_prior(self) -> bool:
        """Whether nothing was ever measured on this cluster."""
        return self.runs == 0


@dataclass(frozen=True)
class NewCluster:
    """Predictor of one new cluster.

    Args:
        accelerator: its public figures.
        weights: (K,) how much each known cluster says about it, summing to 1.
        prior_sd: of level and of single tasks about the prior, (2,).
        centre, scale: (K + 1,) of the features of the reference graphs.
        mean, covariance: (K + 2,) and (K + 2, K + 2) posterior of the coefficients.
        noise_sd: what the coefficients leave.
        runs: how many tasks had a run.
    """

    accelerator: Accelerator
    weights: Floats
    prior_sd: Floats
    centre: Floats
    scale: Floats
    mean: Floats
    covariance: Floats
    noise_sd: float
    runs: int

    @classmethod
    def fit(
        cls,
        accelerator: Accelerator,
        known: OperatorTimes,
        operators: DistinctOperators,
        batch: Floats,
        seconds: Floats,
        reference: DistinctOperators,
    ) -> NewCluster:
        """Fit to the runs there are; none at all is fine.

        Args:
            accelerator: public figures of the new cluster.
            known: trained on the other clusters.
            operators: n graphs with a run on the new cluster.
            batch, seconds: (n,) samples and seconds of those steps.
            reference: training graphs, on which the known clusters' priors are compared with their times.

        Raises:
            DataError: seconds that are not positive and finite.
        """
        n = len(seconds)
        if len(batch) != n or operators.counts.shape[0] != n or not (np.isfinite(seconds) & (seconds > 0)).all():
            raise DataError(f"new cluster: {n} runs need as many graphs, batches and positive seconds; check the runs")
        factors = _factors(known, reference)
        weights, prior_sd = _resemblance(accelerator, known.accelerators), _prior_sd(factors, known.accelerators)
        size = graph_roofline(reference, [accelerator], np.full((1, len(factors)), accelerator.batch))[0]
        typical = np.column_stack([size, factors])
        d = typical.shape[1]
        fitted = cls(
            accelerator=accelerator,
            weights=weights,
            prior_sd=prior_sd,
            centre=typical.mean(axis=0),
            scale=np.maximum(typical.std(axis=0), 1e-6),
            mean=np.zeros(d + 1),
            covariance=np.zeros((d + 1, d + 1)),
            noise_sd=0.0,
            runs=n,
        )
        if not n:
            return fitted
        phi, prior = fitted._features(known, operators, batch)
        mean, covariance, noise = _posterior(phi, np.log(seconds) - prior, float(prior_sd[1]))
        return replace(fitted, mean=mean, covariance=covariance, noise_sd=noise)

    def predict(self, known: OperatorTimes, operators: DistinctOperators, batch: Floats) -> Prediction:
        """Times of a step of `batch` (n,) samples of n graphs."""
        phi, prior = self._features(known, operators, batch)
        if not self.runs:
            sd = np.full(len(prior), float(np.hypot(*self.prior_sd)))
            return Prediction(prior, sd, 0)
        variance = np.einsum("nd,de,ne->n", phi, self.covariance, phi) + self.noise_sd**2
        return Prediction(prior + phi @ self.mean, np.sqrt(variance), self.runs)

    def save(self, path: Path) -> None:
        """Write everything as one safetensors file, whole or not at all."""
        from safetensors.numpy import save

        a = self.accelerator
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        arrays["accelerator"] = np.array([a.peak, a.bandwidth, a.element_bytes, a.batch])
        arrays["fitted"] = np.array([self.noise_sd, float(self.runs)])
        with replacing(path) as temporary:
            temporary.write_bytes(save(arrays))

    @classmethod
    def load(cls, path: Path) -> NewCluster:
        """What `save` wrote.

        Raises:
            DataError: no such file, or not one of these.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            arrays = load_file(path)
            noise, runs = arrays["fitted"]
            return cls(
                accelerator=Accelerator(*map(float, arrays["accelerator"])),
                **{name: arrays[name] for name in _ARRAYS},
                noise_sd=float(noise),
                runs=int(runs),
            )
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a new cluster written by this program ({error}); fit it again") from None

    def _features(self, known: OperatorTimes, operators: DistinctOperators, batch: Floats) -> tuple[Floats, Floats]:
        """(n, K + 2) one, size and factors in the reference's units; (n,) prior, roofline times weighted factors."""
        roofline, factors = graph_roofline(operators, [self.accelerator], batch[None])[0], _factors(known, operators)
        columns = (np.column_stack([roofline, factors]) - self.centre) / self.scale
        return np.column_stack([np.ones(len(roofline)), columns]), roofline + factors @ self.weights


_ARRAYS = ("weights", "prior_sd", "centre", "scale", "mean", "covariance")


def _factors(known: OperatorTimes, operators: DistinctOperators) -> Floats:
    """(n, K) log of predicted time over roofline on each known cluster at its typical batch."""
    batch = np.repeat(np.array([[a.batch] for a in known.accelerators]), operators.counts.shape[0], axis=1)
    factors: Floats = (known.log_seconds(operators) - graph_roofline(operators, known.accelerators, batch)).T
    return factors


def _resemblance(accelerator: Accelerator, others: Sequence[Accelerator]) -> Floats:
    """(K,) weights of known clusters by how close their public figures are, summing to 1."""
    gap = np.array([[np.log(o.peak / accelerator.peak), np.log(o.bandwidth / accelerator.bandwidth)] for o in others])
    distance = (gap**2).sum(axis=1) / _FIGURE_SCALE**2
    closeness: Floats = np.exp(-0.5 * (distance - distance.min()))
    weights: Floats = closeness / closeness.sum()
    return weights


def _prior_sd(factors: Floats, known: Sequence[Accelerator]) -> Floats:
    """(2,) spread of levels and of single tasks: how far each known cluster's prior from the others is off."""
    K = len(known)
    if K < 2:
        return np.array([_LEVEL_SD, _NOISE_SD[-1]])
    off = []
    for i, own in enumerate(known):
        others = [k for k in range(K) if k != i]
        weights = _resemblance(own, [known[k] for k in others])
        off.append(factors[:, others] @ weights - factors[:, i])
    level = np.array([o.mean() for o in off])
    single = np.array([o.std() for o in off])
    # A new level is drawn like the K known ones, whose mean is itself uncertain.
    spread = max(float(np.sqrt((level**2).mean() * (1 + 1 / K))), _LEAST_LEVEL_SD)
    return np.array([spread, np.sqrt((single**2).mean())])


def _posterior(phi: Floats, target: Floats, usual_noise: float) -> tuple[Floats, Floats, float]:
    """Mean and covariance of coefficients, and the noise, averaged over scales by their evidence."""
    n, d = phi.shape
    log_evidence, means, seconds, variances = [], [], [], []
    for coefficient_sd, noise in itertools.product(_COEFFICIENT_SD, _NOISE_SD):
        scale = np.concatenate([[_LEVEL_SD, _SLOPE_SD], np.full(d - 2, coefficient_sd)]) ** 2
        cover = (phi * scale) @ phi.T + noise**2 * np.eye(n)
        gain = np.linalg.solve(cover, phi * scale).T
        vague = ((np.log(noise / usual_noise)) / _NOISE_LOG_SD) ** 2
        log_evidence.append(-0.5 * (target @ np.linalg.solve(cover, target) + np.linalg.slogdet(cover)[1] + vague))
        means.append(gain @ target)
        seconds.append(np.diag(scale) - gain @ (phi * scale) + np.outer(means[-1], means[-1]))
        variances.append(noise**2)
    weight = np.exp(np.array(log_evidence) - max(log_evidence))
    weight /= weight.sum()
    mean = weight @ np.array(means)
    covariance = np.tensordot(weight, np.array(seconds), axes=1) - np.outer(mean, mean)
    return mean, covariance, float(np.sqrt(weight @ np.array(variances)))
