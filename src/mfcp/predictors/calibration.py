"""How far predictions are off on tasks of unseen families: out-of-fold spread of log time and of reliability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints

LEAST_RELIABILITY_SD = 0.008  # a perfect fit to some hundred shares is luck, not knowledge


@dataclass(frozen=True)
class Calibration:
    """Spread of a predictor's errors on tasks that it was not trained on.

    Attributes:
        log_sd: (S, M) root mean square error of log time.
        own_sd: (S, M) what of it the clusters of a task do not share, the same for all clusters.
        a_sd: (S, M) standard deviation of the success probability about its prediction, the binomial noise of
            the observed shares taken out.
    """

    log_sd: Floats
    own_sd: Floats
    a_sd: Floats

    @staticmethod
    def none(seeds: int, clusters: int) -> Calibration:
        """Of predictions that are taken for the truth."""
        return Calibration(*(np.zeros((seeds, clusters)) for _ in range(3)))


def calibrate(log_t: Floats, a: Floats, T: Floats, A: Floats, runs: Ints, known: Bools) -> Calibration:
    """Spread of out-of-fold predictions, per seed and cluster.

    Errors of log time are e_ij = shared_j + own_ij. What clusters do not share is estimated within tasks, from
    e_ij - mean_i e_ij over a task's k known clusters, with k - 1 degrees of freedom each, and over all clusters
    together: differences between clusters would decide plans, and a few families tell little of them. Where no task
    is known on two clusters, it is the whole error. For reliability, sigma² = max(0.008², mean (â - A)² -
    mean â(1 - â)/R), the observed share A having binomial variance.

    Args:
        log_t, a: (S, M, n) predictions, each by a model that did not see the task's family.
        T, A: (M, n) labels.
        runs: (M, n) finished runs R behind A.
        known: (S, M, n) pairs to use.
    """
    count = np.maximum(known.sum(-1), 1)
    residual = np.where(known, log_t - np.log(np.where(known, T, 1.0)), 0.0)
    noise = np.where(known, a * (1 - a) / np.maximum(runs, 1), 0.0)
    miss = np.where(known, a - np.nan_to_num(A), 0.0) ** 2
    variance = (miss.sum(-1) - noise.sum(-1)) / count
    log_sd = np.sqrt((residual**2).sum(-1) / count)
    own = own_deviation(residual, known)[:, None]
    return Calibration(
        log_sd=log_sd,
        own_sd=np.where(np.isnan(own), log_sd, own),
        a_sd=np.sqrt(np.maximum(variance, LEAST_RELIABILITY_SD**2)),
    )


def own_deviation(residual: Floats, known: Bools) -> Floats:
    """(S,) deviation of errors (S, M, n) about their task's mean over its clusters; nan where no task has two."""
    clusters = known.sum(1, keepdims=True)
    mean = np.where(known, residual, 0.0).sum(1, keepdims=True) / np.maximum(clusters, 1)
    square = np.where(known, residual - mean, 0.0) ** 2
    freedom = np.maximum(clusters - 1, 0).sum((1, 2))
    result: Floats = np.where(freedom > 0, np.sqrt(square.sum((1, 2)) / np.maximum(freedom, 1)), np.nan)
    return result
