"""Qore-DL's adjuster: which running jobs change their size, and to what, by `mfcp.simulator.qore.equations`.

A change is a worker more or less (horizontal), or other CPU and memory of every worker, whose accelerators stay
(vertical): 16 steps of each, between bounds that are *read* from the authors' scripts. A worker with an accelerator
never gets less. The genes are few enough to look at all of them; the genetic search of the paper is the other option.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.simulator.qore.equations import (
    THRESHOLDS,
    Case,
    RunningJobs,
    Thresholds,
    candidates,
    case,
    execution_time,
    fitness,
    sensitivity,
    timeout_degree,
)

LEVELS = 16
"""Steps of CPU and of memory: four bits each of the eight of a gene, alternating, memory first."""
GROW = ((0.765, 1.36), (1.0, 1.4))
SHRINK = ((0.5, 0.95), (0.725, 0.95))
"""Bounds of the factor on CPU and on memory; read."""
FLOORS, CEILINGS = np.array([1.0, 0.475, 1.03]), np.array([1.0, 2.01, 2.35])
"""Of accelerators, CPU and memory over their predicted peaks; read. Accelerators are whole, and stay."""
POPULATION, GENERATIONS, CROSSOVER, MUTATION = 8, 4, 0.8, 0.003
"""Of the genetic search; read."""
_HORIZONTAL = LEVELS * LEVELS  # the gene after all vertical ones

Times = Callable[[Ints, Floats], Floats]
"""(k,) rows of jobs and (k, g, 3) accelerators, CPU and memory of a worker → (k, g) seconds of an iteration."""


@dataclass(frozen=True)
class Running:
    """n jobs that run.

    Attributes:
        jobs: as the equations see them.
        available: (n,) seconds until their deadlines.
        given, peak: (n, 3) accelerators, CPU and memory of a worker, and its predicted peak needs.
    """

    jobs: RunningJobs
    available: Floats
    given: Floats
    peak: Floats


@dataclass(frozen=True)
class Change:
    """A job's new size: one worker more (1) or less (-1), or what each worker is given (3,)."""

    job: int
    workers: int
    given: Floats
    worth: float


def adjust(
    running: Running,
    load: float,
    times: Times,
    *,
    search: Literal["exhaustive", "genetic"] = "exhaustive",
    rng: np.random.Generator | None = None,
    thresholds: Thresholds = THRESHOLDS,
) -> list[Change]:
    """The changes of one round, those that grow first; none where no legal change is better than none.

    Args:
        running: the jobs.
        load: of the cluster.
        times: predicted seconds of an iteration.
        search: over all sizes of a candidate, or a genetic one over few.
        rng: of the genetic search.
        thresholds: of the load, between the cases.
    """
    jobs = running.jobs
    timeout = timeout_degree(execution_time(jobs.remaining, jobs.seconds), running.available)
    which = case(timeout, load, thresholds)
    grows = which != "shrink"
    stepped = decode(running, np.arange(len(timeout)), np.array([_HORIZONTAL - 1]), grows=grows)
    changed = times(np.arange(len(timeout)), stepped)[:, 0]
    sensitive = sensitivity(jobs, changed, grows=grows)
    found = []
    for rows, larger in zip(candidates(timeout, sensitive, which), (True, False), strict=True):
        if not len(rows):
            continue
        sizes = decode(running, rows, np.arange(_HORIZONTAL), grows=larger)
        worth = _worth(running, rows, which, timeout, times(rows, sizes), grows=larger)
        worth[:, :-1][np.all(sizes == running.given[rows, None], axis=2)] = -np.inf  # it is of this size
        if not larger:  # an accelerator would wait for CPU, and nobody else gets it
            worth[running.given[rows, 0] > 0, :-1] = -np.inf
        for job, own, size in zip(rows, worth, sizes, strict=True):
            gene = int(own.argmax()) if search == "exhaustive" else evolve(own, rng or np.random.default_rng(0))
            if own[gene] > -np.inf:
                sign = (1 if larger else -1) if gene == _HORIZONTAL else 0
                given = running.given[job] if sign else size[gene]
                found.append(Change(int(job), sign, given, float(own[gene])))
    return found


def decode(running: Running, rows: Ints, genes: Ints, *, grows: bool) -> Floats:
    """(k, g, 3) what a worker is given under vertical genes (g,), within floors and ceilings of its peak needs."""
    memory, cpu = np.zeros(len(genes), np.int64), np.zeros(len(genes), np.int64)
    for bit in range(4):
        memory += ((genes >> (7 - 2 * bit)) & 1) << (3 - bit)
        cpu += ((genes >> (6 - 2 * bit)) & 1) << (3 - bit)
    bounds = zip(GROW if grows else SHRINK, (cpu, memory), strict=True)
    steps = [low + (high - low) * level / (LEVELS - 1) for (low, high), level in bounds]
    factors = np.stack([np.ones(len(genes)), *steps], axis=-1)
    given = running.given[rows, None] * factors
    result: Floats = np.clip(given, FLOORS * running.peak[rows, None], CEILINGS * running.peak[rows, None])
    return result


def _worth(running: Running, rows: Ints, which: Case, timeout: Floats, seconds: Floats, *, grows: bool) -> Floats:
    """(k, 257) fitness of every gene of some jobs, the horizontal one last; -inf where it is not legal or no use.

    `seconds` (k, 256) are those of an iteration at the size of every vertical gene.
    """
    jobs = running.jobs
    workers = jobs.workers[rows] + (1 if grows else -1)
    left = np.maximum(jobs.total[rows] * jobs.workers[rows] / np.maximum(workers, 1) - jobs.done[rows], 0.0)
    before = execution_time(jobs.remaining[rows], jobs.seconds[rows])
    after = np.column_stack([execution_time(jobs.remaining[rows, None], seconds), left * jobs.seconds[rows]])
    saved = before[:, None] - after
    sensitive = np.abs(saved) / np.maximum(jobs.need[rows, None] * jobs.remaining[rows, None], 1e-9)
    late = np.broadcast_to(timeout[rows, None], saved.shape)
    worth = fitness(which, late.ravel(), saved.ravel(), sensitive.ravel()).reshape(saved.shape)
    return np.where(_legal(running, rows, after, saved, workers, grows=grows), worth, -np.inf)


def _legal(running: Running, rows: Ints, after: Floats, saved: Floats, workers: Ints, *, grows: bool) -> Bools:
    """(k, 257) whether what grows gets faster, and what shrinks still meets its deadline, with a worker at least."""
    legal: Bools = saved > 0 if grows else after <= running.available[rows, None]
    legal[:, -1] &= workers >= 1
    return legal


def evolve(worth: Floats, rng: np.random.Generator) -> int:
    """The best gene that a genetic search comes across: roulette, single-point crossover, mutation of bits.

    Args:
        worth: (257,) of every gene, -inf where it is not legal.
        rng: what it draws from.
    """
    bits = 9
    flagged = rng.integers(0, 2**bits, POPULATION)

    def gene(each: Ints) -> Ints:
        return np.where(each >> 8 & 1, _HORIZONTAL, each & 0xFF)

    best = int(gene(flagged)[worth[gene(flagged)].argmax()])
    for _ in range(GENERATIONS):
        own = worth[gene(flagged)]
        legal = np.isfinite(own)
        chance = np.where(legal, own - np.where(legal, own, np.inf).min() + 1e-9, 0.0)
        chance = chance / chance.sum() if chance.sum() > 0 else np.full(POPULATION, 1 / POPULATION)
        parents = flagged[rng.choice(POPULATION, (POPULATION, 2), p=chance)]
        low = (1 << rng.integers(1, bits, POPULATION)) - 1
        low = np.where(rng.random(POPULATION) < CROSSOVER, low, 0)
        flips: Ints = (rng.random((POPULATION, bits)) < MUTATION).astype(np.int64) @ (1 << np.arange(bits))
        flagged = (parents[:, 0] & ~low | parents[:, 1] & low) ^ flips
        now = int(gene(flagged)[worth[gene(flagged)].argmax()])
        best = now if worth[now] > worth[best] else best
    return best
