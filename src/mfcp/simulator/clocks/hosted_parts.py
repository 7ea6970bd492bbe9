"""What workers and parameter servers of jobs need of hosts, and how fast they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import SettingsError
from mfcp.simulator.cluster import PLENTY, Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.qore.adjuster import Times

SERVER = 0.5
"""CPU and memory of a parameter server, over a worker's."""


def _each_as_much(rows: Ints, workers: Ints) -> Floats:
    return workers.astype(float)


@dataclass(frozen=True)
class HostedParts:
    """What n jobs need of L hosts. Resources are accelerators, CPU and memory, in this order.

    Attributes:
        capacity: (L, 3) of the hosts; infinite where it is not known.
        peak, server: (n, 3) what a worker and a parameter server use at most.
        seconds, believed: of an iteration of a worker, by what it is given: as it is, and as it is predicted.
        limit: (n,) iterations that a job which waits is believed to need; empty for those of the belief.
        together: (k,) rows of jobs and (k,) workers → (k,) how many workers' work they do.
    """

    capacity: Floats
    peak: Floats
    server: Floats
    seconds: Times
    believed: Times
    limit: Floats = field(default_factory=lambda: np.empty(0))
    together: Callable[[Ints, Ints], Floats] = _each_as_much

    @staticmethod
    def of(jobs: Jobs, cluster: Cluster, ways: Configurations) -> HostedParts:
        """A worker has one of a job's accelerators, and its part of the job's CPU and memory.

        With less CPU than that an iteration takes as much longer; with more CPU or memory it is not faster. What other
        numbers of workers do than a job asks for follows from `ways`: between two sizes on a power law, below the
        smallest in proportion, and above the largest as much as that.

        Raises:
            SettingsError: jobs without accelerators.
        """
        if (jobs.gpus < 1).any():
            row = int((jobs.gpus < 1).argmax())
            raise SettingsError(f"job {jobs.id[row]} has no accelerator, and a worker has one; leave it out")
        beside = np.column_stack([cluster.cpu, cluster.memory])
        host = np.column_stack([cluster.size, np.where(beside >= PLENTY, np.inf, beside)])
        peak = np.column_stack([np.ones(len(jobs.gpus)), jobs.cpu / jobs.gpus, jobs.memory / jobs.gpus])
        rate = _Rates(ways)
        one = jobs.gpus / rate(np.arange(len(jobs.gpus)), jobs.gpus)

        def seconds(rows: Ints, sizes: Floats) -> Floats:
            short = peak[rows, None, 1] / np.maximum(sizes[..., 1], 1e-9)
            return np.asarray(one[rows, None] * np.maximum(short, 1.0))

        return HostedParts(
            host, peak, peak * [0.0, SERVER, SERVER], seconds, seconds,
            together=lambda rows, workers: np.asarray(one[rows] * rate(rows, workers)),
        )  # fmt: skip


class _Rates:
    """Iterations per second of jobs with so many workers."""

    def __init__(self, ways: Configurations) -> None:
        order = np.argsort(ways.gpus, kind="stable")
        self.gpus, self.rate = np.log(ways.gpus[order].astype(float)), ways.rate[:, order]

    def __call__(self, rows: Ints, workers: Ints) -> Floats:
        found = np.empty(len(rows))
        for i, (own, asked) in enumerate(zip(self.rate[rows], np.log(workers.astype(float)), strict=True)):
            known = own > 0
            sizes = self.gpus[known]
            found[i] = np.exp(np.interp(asked, sizes, np.log(own[known])) + min(asked - sizes[0], 0.0))
        return found
