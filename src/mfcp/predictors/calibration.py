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
        a_sd: (S, M) standard deviation of the success probability about its prediction, the binomial noise of
            the observed shares taken out.
    """

    log_sd: Floats
    a_sd: Floats


def calibrate(log_t: Floats, a: Floats, T: Floats, A: Floats, runs: Ints, known: Bools) -> Calibration:
    """Spread of out-of-fold predictions, per seed and cluster.

    sigma² = max(0.008², mean (â - A)² - mean â(1 - â)/R), the observed share A having binomial variance.

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
    return Calibration(
        log_sd=np.sqrt((residual**2).sum(-1) / count),
        a_sd=np.sqrt(np.maximum(variance, LEAST_RELIABILITY_SD**2)),
    )
