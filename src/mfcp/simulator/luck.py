"""Whether an attempt of a job fails, and when: drawn from the job's name, so that its luck is its own."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Texts


def draw_failures(names: Texts, success: Floats, retries: int, seed: int) -> Floats:
    """(n, retries + 1) part that is left when an attempt fails, at a uniform point of it; -1 where it succeeds.

    A draw depends on the job's name, the number of the attempt and the seed alone: a job has the same luck under every
    policy, on every cluster and beside any other jobs, which pairs all comparisons.

    Args:
        names: (n,) of the jobs.
        success: (n,) probabilities.
        retries: attempts after the first.
        seed: of the run.
    """
    if (success >= 1).all():
        return np.empty((len(names), 0))
    attempts = np.arange(retries + 1, dtype=np.uint64)
    own = pd.util.hash_array(names.astype(object))[:, None] ^ _mixed(np.uint64(seed) + np.uint64(1))
    fails = _uniform(own, 2 * attempts) >= success[:, None]
    left: Floats = np.where(fails, _uniform(own, 2 * attempts + 1), -1.0)
    return left


def _uniform(key: np.ndarray, number: np.ndarray) -> Floats:
    """(n, k) numbers in [0, 1) by key and number."""
    draw: Floats = (_mixed(_mixed(key) + number) >> np.uint64(11)) / 2.0**53
    return draw


def _mixed(value: np.ndarray | np.uint64) -> np.ndarray:
    """The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): each bit moves each bit."""
    with np.errstate(over="ignore"):
        z = np.asarray(value, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))
