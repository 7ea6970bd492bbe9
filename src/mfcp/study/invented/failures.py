"""Emulated reliability for logs that hold no failure, or too few runs to count any.

A proportional-hazards model with a Weibull base: a run of task j on cluster i survives with probability

    a_ij = exp(-s · h_i · (T_ij / T_median)^k · exp(b_i z_j)),  T_ij / T_median held in [1/10, 10]

h_i is the cluster's own hazard, k < 1 because failures of training jobs come early, z_j the task's pressure on
memory, and b_i how much that matters on cluster i, more where memory is small. s brings the mean to a stated value.
All of it is emulated: it depends on features that a predictor may see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Floats, Ints


class FailureModel(BaseModel):
    """Settings of the emulated failures; the defaults give the paper's mean reliability of 0.88."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    mean: float = Field(default=0.88, gt=0, lt=1, description="mean success probability over all pairs")
    runs: int = Field(default=30, ge=1, description="R, runs per pair that the observed share is counted of")
    hazard_spread: float = Field(default=0.7, ge=0, description="spread of the clusters' log hazards")
    time_exponent: float = Field(default=0.5, ge=0, le=2, description="k, Weibull shape; 1 is a constant hazard")
    pressure: float = Field(default=0.35, ge=0, description="log hazard per deviation of memory pressure")


@dataclass(frozen=True)
class Emulated:
    """Probabilities (M, n), and how many of `runs` (M, n) runs succeeded as a share (M, n)."""

    probability: Floats
    share: Floats
    runs: Ints


def emulate_failures(model: FailureModel, T: Floats, pressure: Floats, memory: Floats, *, seed: int) -> Emulated:
    """Success probabilities of every pair, and shares counted over R runs of each.

    Args:
        model: settings.
        T: (M, n) seconds, nan where a pair does not exist.
        pressure: (n,) memory pressure of each task, mean 0 and deviation 1.
        memory: (M,) bytes of one device, nan where unknown.
        seed: of hazards and runs.

    Returns:
        nan and 0 runs where T is nan.
    """
    rng = np.random.default_rng([seed, 0xFA11])
    clusters = len(T)
    # Evenly spread quantiles in random order: with few clusters an independent draw may give them all the same hazard.
    hazard = model.hazard_spread * rng.permutation(np.linspace(-1.5, 1.5, clusters) if clusters > 1 else np.zeros(1))
    sensitivity = model.pressure * np.exp(rng.uniform(-0.5, 0.5, clusters)) * _scarcity(memory)
    # A checkpoint bounds what one long run risks, a start-up what a short one saves.
    exposure = model.time_exponent * np.clip(np.log(T / np.nanmedian(T)), -np.log(10.0), np.log(10.0))
    risk = np.exp(hazard[:, None] + exposure + sensitivity[:, None] * np.clip(pressure, -2.0, 2.0))
    probability = np.exp(-_scale(risk[np.isfinite(T)], model.mean) * risk)
    known = np.isfinite(T)
    counts = rng.binomial(model.runs, np.where(known, probability, 0.0))
    runs = np.where(known, model.runs, 0)
    share = np.where(known, counts / model.runs, np.nan)
    return Emulated(np.where(known, probability, np.nan), share, runs.astype(np.int64))


def memory_pressure(features: dict[str, Floats]) -> Floats:
    """(n,) mean standardised log of the features (n,) that are known of each task; 0 where none is."""
    scores = []
    for values in features.values():
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.where(values > 0, np.log(values), np.nan)
        known = np.isfinite(log)
        if known.sum() > 1 and np.std(log[known]) > 0:
            scores.append((log - log[known].mean()) / log[known].std())
    if not scores:
        return np.zeros(len(next(iter(features.values()))))
    stacked = np.stack(scores)
    count = np.isfinite(stacked).sum(axis=0)
    mean = np.where(count > 0, np.nansum(stacked, axis=0) / np.maximum(count, 1), 0.0)
    deviation = mean.std()
    result: Floats = (mean - mean.mean()) / deviation if deviation > 0 else np.zeros(len(mean))
    return result


def _scarcity(memory: Floats) -> Floats:
    """(M,) square root of how much less memory a cluster has than the median one; 1 where unknown."""
    known = np.isfinite(memory) & (memory > 0)
    if not known.any():
        return np.ones(len(memory))
    result: Floats = np.where(known, np.sqrt(np.median(memory[known]) / np.where(known, memory, 1.0)), 1.0)
    return result


def _scale(risk: Floats, mean: float) -> float:
    """The factor s with mean exp(-s · risk) = mean; the left side falls monotonically from 1 to 0."""
    from scipy.optimize import brentq

    def excess(log_s: float) -> float:
        return float(np.exp(-np.exp(log_s) * risk).mean()) - mean

    return float(np.exp(brentq(excess, -40.0, 40.0, xtol=1e-12)))
