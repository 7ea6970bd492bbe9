"""Who sizes all jobs on hosts at once, to compare Qore-DL with: each by its own rule, on the same predictions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.hosting import Resizing, SizeWish, more_workers, one_worker_each, room_beside, time_saved
from mfcp.simulator.qore.training_losses import assumed_loss


class HostedOptimus(Resizing):
    """A worker each, then one at a time to whom it saves most time over what it takes.

    Peng et al., "Optimus", EuroSys 2018, Eq. 9.
    """

    name: ClassVar[str] = "optimus_on_hosts"

    def sizes(self, wish: SizeWish) -> Ints:
        """By the time that a worker saves."""
        workers = one_worker_each(wish, np.arange(len(wish.row)))
        return more_workers(wish, workers, self.most, lambda w: time_saved(wish, w))


class HostedSlaq(Resizing):
    """A worker each, then one at a time to whose loss it lowers most in the next minutes, over what it takes.

    Zhang et al., "SLAQ", SoCC 2017, §4. With the belief `losses` falls are those of curves fitted to the losses so far;
    else the normalised loss is an inverse curve that falls to a tenth by the believed end.
    """

    name: ClassVar[str] = "slaq_on_hosts"
    ahead_s: float = Field(600.0, gt=0, description="seconds in which it looks for quality")

    def sizes(self, wish: SizeWish) -> Ints:
        """By the fall of the loss."""
        end = np.maximum(wish.done + wish.left, 1e-9)

        def loss(workers: Ints) -> Floats:
            after = np.minimum(wish.done + self.ahead_s * workers / wish.seconds, end)
            return assumed_loss(after / end)

        workers = one_worker_each(wish, np.arange(len(wish.row)))
        if wish.falls is None:
            return more_workers(wish, workers, self.most, lambda w: loss(w) - loss(w + 1))
        ahead = np.arange(self.most + 1) * self.ahead_s / wish.seconds[:, None]
        fall, rows = wish.falls(wish.row, np.minimum(ahead, wish.left[:, None])), np.arange(len(workers))
        return more_workers(
            wish, workers, self.most, lambda w: fall[rows, np.minimum(w + 1, self.most)] - fall[rows, w]
        )


class HostedElasticFlow(Resizing):
    """By deadline, the least workers that meet it where they fit; what is left goes where it saves most time.

    Gu et al., "ElasticFlow", ASPLOS 2023, §4: shares here are constant until the end, not filled slot by slot.
    """

    name: ClassVar[str] = "elastic_flow_on_hosts"
    uses: ClassVar[Uses] = ("expected", "deadline")

    def sizes(self, wish: SizeWish) -> Ints:
        """By deadlines first."""
        least = np.ceil(wish.left * wish.seconds / np.maximum(wish.available, 1e-3))
        hopeful = (wish.available > 0) & np.isfinite(wish.available) & (least <= self.most)
        workers = np.zeros(len(wish.row), np.int64)
        free = room_beside(wish, workers)
        for i in np.argsort(wish.available, kind="stable"):
            if hopeful[i] and (least[i] * wish.need[i] <= free).all():
                workers[i] = int(max(least[i], 1))
                free -= workers[i] * wish.need[i]
        shortest = np.argsort(wish.left * wish.seconds, kind="stable")
        return more_workers(wish, one_worker_each(wish, shortest, workers), self.most, lambda w: time_saved(wish, w))
