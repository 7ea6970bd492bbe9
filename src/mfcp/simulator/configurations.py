"""The ways in which a job can run, and how fast it is in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs


@dataclass(frozen=True)
class Configurations:
    """C ways to run, the same for all n jobs; which of them a job can take, its rates say.

    Attributes:
        gpus: (C,) accelerators, ascending within a type.
        type: (C,) of which type.
        rate: (n, C) iterations per second; 0 where a job cannot run so.
        watts: (C,) of the accelerators; zeros if power is of no interest.
    """

    gpus: Ints
    type: Ints
    rate: Floats
    watts: Floats

    def __post_init__(self) -> None:
        """Check what cannot be simulated.

        Raises:
            DataError: a job without any way to run.
        """
        for job in np.flatnonzero((self.rate <= 0).all(axis=1))[:1]:
            raise DataError(f"job {job} has no configuration in which it runs; give it a positive rate in one")

    @staticmethod
    def rigid(jobs: Jobs, cluster: Cluster, speed: Floats | None = None) -> Configurations:
        """Only the accelerators that a job asks for, on any type that it runs on."""
        speed = np.ones((len(jobs.id), len(cluster.types))) if speed is None else speed
        pairs = [(kind, size) for kind in range(len(cluster.types)) for size in np.unique(jobs.gpus)]
        kinds, sizes = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
        there = sizes <= cluster.by_type[kinds]
        rate = np.where((jobs.gpus[:, None] == sizes) & there, speed[:, kinds] / jobs.step[:, None], 0.0)
        return Configurations(sizes, kinds, rate, np.zeros(len(sizes)))

    @staticmethod
    def elastic(
        jobs: Jobs, cluster: Cluster, speed: Floats | None = None, *, exponent: float = 0.9, most: int = 64
    ) -> Configurations:
        """Powers of two of every type, and what the job asks for; the rate grows as accelerators to a power.

        Args:
            jobs: of which the rate is known on the accelerators that they ask for.
            cluster: where they run.
            speed: (n, K) of each job on each type; all 1 if None.
            exponent: in (0, 1]; 1 is perfect scaling.
            most: largest power of two.
        """
        speed = np.ones((len(jobs.id), len(cluster.types))) if speed is None else speed
        parts = []
        for kind, there in enumerate(cluster.by_type):
            powers = 2 ** np.arange(int(np.log2(min(most, there))) + 1)
            sizes = np.union1d(powers, jobs.gpus[jobs.gpus <= there]).astype(np.int64)
            rate = (sizes / jobs.gpus[:, None]) ** exponent / jobs.step[:, None] * speed[:, [kind]]
            parts.append((sizes, kind, np.where(np.isin(sizes, powers) | (sizes == jobs.gpus[:, None]), rate, 0.0)))
        kinds = np.repeat([kind for _, kind, _ in parts], [len(sizes) for sizes, _, _ in parts])
        gpus = np.concatenate([sizes for sizes, _, _ in parts])
        return Configurations(gpus, kinds, np.hstack([rate for _, _, rate in parts]), np.zeros(len(gpus)))

    def with_frequencies(self, factors: Floats, idle_watts: float, busy_watts: float) -> Configurations:
        """Every way at several clock frequencies, as parts of the highest one.

        The rate follows the frequency, the power above idle its cube, as dynamic power does.

        Args:
            factors: (F,) in (0, 1].
            idle_watts, busy_watts: of an accelerator that waits, and of one at the highest frequency.
        """
        per_gpu = idle_watts + (busy_watts - idle_watts) * factors**3
        return Configurations(
            np.repeat(self.gpus, len(factors)), np.repeat(self.type, len(factors)),
            (self.rate[:, :, None] * factors).reshape(len(self.rate), -1), np.outer(self.gpus, per_gpu).ravel(),
        )  # fmt: skip
