"""Matching rounds of any size resampled from measured or emulated tables of times and reliabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mfcp.data.log.validation import validate
from mfcp.data.pool.task_pool import TaskPool
from mfcp.data.sources.folder import Folder
from mfcp.emulator.platform import emulate
from mfcp.emulator.settings import EmulatorSettings
from mfcp.matching import MatchingProblem
from mfcp.study.study_pool import PoolSettings, build_pool


def emulated_pool(tasks: int = 60) -> TaskPool:
    """Pairs of the emulated platform; the graphs of its models are captured, which takes most of the time."""
    tables = validate(emulate(EmulatorSettings(tasks=tasks), 0), max_bad_share=0.05).tables
    return build_pool(tables, PoolSettings(), seed=0)


def logged_pool(folder: Path) -> TaskPool:
    """Pairs of a folder of logs."""
    tables = validate(Folder(path=str(folder)).read(0), max_bad_share=0.05).tables
    return build_pool(tables, PoolSettings(failures="emulated"), seed=0)


def resample(pool: TaskPool, M: int, N: int, seed: int) -> MatchingProblem:
    """A round of N tasks drawn from a pool's, with drawn amounts of work, on M clusters like the pool's.

    A drawn cluster keeps its time ratios between tasks up to 5 % a pair; its speed varies by a factor exp(0.3 normal).
    """
    rng = np.random.default_rng([seed, M, N])
    T = pool.T if pool.T_true is None else pool.T_true
    A = pool.A if pool.A_true is None else pool.A_true
    known = pool.allowed & np.isfinite(A)
    enough = known.sum(axis=0) >= max(2, known.shape[0] // 3)
    at = np.ix_(
        np.concatenate([rng.permutation(len(T)) for _ in range(-(-M // len(T)))])[:M],
        rng.choice(np.flatnonzero(enough), N),
    )
    allowed = known[at]
    for task in np.flatnonzero(~allowed.any(axis=0)):  # its clusters were not drawn: it may run on a typical one
        allowed[rng.integers(M), task] = True
    noise = np.exp(
        0.3 * rng.standard_normal((M, 1)) + 0.05 * rng.standard_normal((M, N)) + 0.6 * rng.standard_normal(N)
    )
    times = np.where(known, T, np.nanmedian(np.where(known, T, np.nan), axis=0))[at] * noise
    chances = np.clip(np.where(known, A, 0.5)[at] + 0.02 * rng.standard_normal((M, N)), 0.0, 1.0)
    fastest = np.where(allowed, times, np.inf).argmin(axis=0)
    fast = chances[fastest, np.arange(N)].mean()
    best = np.where(allowed, chances, 0.0).max(axis=0).mean()
    return MatchingProblem(times, chances, fast + 0.6 * (best - fast), allowed)
