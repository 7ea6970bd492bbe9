"""CoGNN: jobs share accelerators so that no pair asks for much more than the others."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Moment, Shares
from mfcp.simulator.policies.sharing.in_turn import fastest_with_room


class CoGnn(Shares):
    """As many jobs as there are places and half of them again in pairs; the heaviest stay alone, pairs are balanced.

    A job is as heavy as others that share with it become slow, in the mean over those that wait or run. When n jobs
    have fewer places, the lightest share: the lightest of all with the heaviest of these, and so on inwards, so that
    the heaviest pair is as light as it can be. Sun et al., "CoGNN: efficient scheduling for concurrent GNN training on
    GPUs", SC 2022 (BMC), as the survey tells it; their model of memory accesses is not here, measured speeds of two
    together stand for it. Without `balanced`, jobs share in the order of submission, as under MPS.
    """

    name: ClassVar[str] = "cognn"
    strict: ClassVar[bool] = True
    packs: ClassVar[bool] = True
    balanced: bool = Field(True, description="who shares is chosen by how heavy jobs are")

    def solve(self, moment: Moment) -> Floats:
        """Places of the first jobs, and who shares them with whom."""
        k, kinds = len(moment.job), fastest_with_room(moment)
        share = np.zeros((k + len(moment.pair), len(moment.size)))
        waiting = min(k - len(kinds), len(kinds))
        kept = moment.kept
        jobs = np.arange(len(kinds) + waiting)
        able = np.asarray((kept > 0).all(axis=2))  # pair and type
        number = {tuple(each): row for row, each in enumerate(moment.pair.tolist())}
        place = dict(enumerate(kinds))  # of the job that was placed there, as many accelerators as it asks for
        for one, other in self._pairs(moment, kept, jobs, len(place), waiting):
            row = number.get((one, other), -1)
            free = [p for p in place if row >= 0 and moment.gpus[p] == moment.gpus[one] and able[row, place[p]]]
            if free:
                at = next((p for p in free if p in (one, other)), free[-1])
                share[k + row, place.pop(at)] = 1.0
                jobs = jobs[(jobs != one) & (jobs != other)]
        for job in jobs.tolist():  # in order of submission, each where it was placed, or where a pair has left room
            free = [p for p in place if moment.gpus[p] == moment.gpus[job] and moment.speed[job, place[p]] > 0]
            if free:
                share[job, place.pop(job if job in free else free[0])] = 1.0
        return share

    def _pairs(self, moment: Moment, kept: Floats, jobs: Ints, places: int, count: int) -> list[tuple[int, int]]:
        """`count` pairs of jobs, each with the one submitted first before."""
        if not count:
            return []
        if not self.balanced:
            return [(guest - places, guest) for guest in range(places, places + count)]
        order = jobs[np.argsort(weights(moment, kept)[jobs], kind="stable")][: 2 * count]
        return [(int(min(a, b)), int(max(a, b))) for a, b in zip(order[:count], order[::-1], strict=False)]


def weights(moment: Moment, kept: Floats) -> Floats:
    """(k,) the part of their speed that others lose beside a job, in the mean over others and types."""
    lost, count = np.zeros(len(moment.job)), np.zeros(len(moment.job))
    for side in (0, 1):
        np.add.at(lost, moment.pair[:, side], 1 - kept[:, :, 1 - side].mean(axis=1))
        np.add.at(count, moment.pair[:, side], 1.0)
    return np.asarray(lost / np.maximum(count, 1.0))
