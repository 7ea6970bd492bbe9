"""Gandiva: jobs share accelerators by trial."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Moment, Shares


class Gandiva(Shares):
    """An equal split of time; when not all jobs fit, pairs of jobs by chance, kept while they are of use.

    Two jobs that are packed stay together until one has ended or their trial has shown that they slow each other down:
    on all types together, each job's speed over that alone, they do less than one. Xiao et al., "Gandiva: introspective
    cluster scheduling for deep learning", OSDI 2018, §3, as Gavel's simulator has it: without growth and migration,
    which jobs of one accelerator in rounds do not need.
    """

    name: ClassVar[str] = "gandiva"
    packs: ClassVar[bool] = True
    published: bool = Field(
        False, description="draws as the program of Narayanan et al., OSDI 2020: among jobs in the order of a set, and"
        " pairs that run nowhere as well, until the next reset",
    )  # fmt: skip

    def watch(self) -> Callable[[Moment], Floats]:
        """It remembers who is packed with whom."""
        return partial(self._solve, {})

    def solve(self, moment: Moment) -> Floats:
        """Of a first moment."""
        return self._solve({}, moment)

    def _solve(self, partner: dict[int, int], moment: Moment) -> Floats:
        """Shares; `partner` is of both jobs of a pair, by number, and is kept up."""
        names = moment.job[moment.pair].tolist()
        of_use = {tuple(each) for each, gain in zip(names, self._gain(moment).tolist(), strict=True) if gain >= 1.0}
        for job, other in list(partner.items()):
            if (min(job, other), max(job, other)) not in of_use:
                partner.pop(job, None)
        k = len(moment.job)
        share = np.zeros((k + len(moment.pair), len(moment.size)))
        if moment.gpus.sum() <= moment.size.sum():
            share[:k] = moment.size / k / moment.gpus[:, None]
        else:
            position = {job: i for i, job in enumerate(moment.job.tolist())}
            number = {tuple(each): k + row for row, each in enumerate(names)}
            self._pack(partner, moment, position, set(number))
            both = [(a, b) for a, b in partner.items() if a < b]
            pairs = [number[each] for each in both if each in number]
            alone = [i for job, i in position.items() if job not in partner]
            rows = np.array(alone + pairs, np.int64)
            gpus = np.concatenate([moment.gpus, moment.gpus[moment.pair[:, 0]]])[rows]
            share[rows] = moment.size / (len(alone) + len(both)) / gpus[:, None]
        return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0))

    def _pack(
        self, partner: dict[int, int], moment: Moment, position: dict[int, int], known: set[tuple[int, ...]]
    ) -> None:
        """Draw pairs among the jobs that have none; those of as many accelerators are tried, and not as published only
        those with a speed."""
        jobs = moment.job.tolist()
        free = [job for job in (set(jobs) if self.published else jobs) if job not in partner]
        for _ in range(len(free)):
            if len(free) < 2:
                break
            one, other = moment.random.sample(free, 2)
            runs = self.published or (min(one, other), max(one, other)) in known
            if moment.gpus[position[one]] != moment.gpus[position[other]] or not runs:
                continue
            free.remove(one)
            free.remove(other)
            partner[one], partner[other] = other, one

    @staticmethod
    def _gain(moment: Moment) -> Floats:
        """(p,) throughput of pairs, each job's over that alone, summed over types; 0 where it lacks on any."""
        return np.where((moment.together > 0).all(axis=(1, 2)), moment.kept.sum(axis=(1, 2)), 0.0)
