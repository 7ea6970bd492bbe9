"""Hosts with accelerators, CPU and memory, and where the parts of a job go: Qore-DL's Algorithm 1.

The algorithm's text is not in the documents that we hold. Known is that the least loaded hosts take parts first and
parameter servers come before workers, that of a job which does not fit whole as many parts run as fit, one server and
one worker at least, and that a job of which not even these fit waits.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.simulator.qore.equations import cluster_load, host_load, share, weights

Spread = Literal["least loaded", "first", "together"]
"""Which host a part takes: the least loaded with room, the first with room, or that of the job's part before it."""


class Hosts:
    """L hosts.

    Attributes:
        capacity, used: (L, 3) accelerators, CPU and memory; a capacity is infinite where it is not known.
        weight: (3,) of each in a load.
    """

    def __init__(self, capacity: Floats) -> None:
        self.capacity, self.used = capacity, np.zeros_like(capacity)
        self.weight = weights(capacity.sum(axis=0))

    @property
    def load(self) -> Floats:
        """(L,) Eq. 17."""
        return host_load(share(self.used, self.capacity), self.weight)

    @property
    def cluster_load(self) -> float:
        """Eq. 1."""
        return cluster_load(self.load)

    def room(self, needs: Floats) -> Bools:
        """(k,) whether any host has room for a part that needs (k, 3)."""
        free = self.capacity * (1 + 1e-12) - self.used
        kinds, of = np.unique(needs, axis=0, return_inverse=True)
        fits: Bools = np.array([bool(np.all(need <= free, axis=1).any()) for need in kinds], bool)[of.ravel()]
        return fits

    def host_for(self, need: Floats, spread: Spread, before: int = -1) -> int:
        """The host that takes a part which needs (3,), or -1; `before` has the part of the same job before it."""
        fits: Bools = np.all(self.used + need <= self.capacity * (1 + 1e-12), axis=1)
        if not fits.any():
            return -1
        if spread == "first":
            return int(fits.argmax())
        if spread == "together" and before >= 0 and fits[before]:
            return before
        return int(np.where(fits, self.load, np.inf).argmin())

    def place(self, servers: int, workers: int, server: Floats, worker: Floats, spread: Spread) -> tuple[Ints, Ints]:
        """Give a job hosts, as many of its parts as fit.

        Args:
            servers, workers: how many it is to have; with servers, one is the least, of workers too.
            server, worker: (3,) what one of them needs.
            spread: which hosts they take.

        Returns:
            Hosts of its servers, and of its workers; both empty, and nothing taken, if the least does not fit.
        """
        first = (1 if servers else 0, 1)  # the least must fit before the rest may take room
        found: tuple[list[int], list[int]] = ([], [])
        for counts in (first, (servers - first[0], workers - 1)):
            for count, need, own in zip(counts, (server, worker), found, strict=True):
                for _ in range(count):
                    host = self.host_for(need, spread, own[-1] if own else -1)
                    if host < 0:
                        break
                    self.used[host] += need
                    own.append(host)
            if counts is first and (len(found[0]), len(found[1])) != first:
                self.free(np.array(found[0], np.int64), server)
                self.free(np.array(found[1], np.int64), worker)
                return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.array(found[0], np.int64), np.array(found[1], np.int64)

    def free(self, hosts: Ints, need: Floats) -> None:
        """Parts on these hosts, each of (3,), have gone."""
        np.subtract.at(self.used, hosts, need)
        self.used[np.abs(self.used) < 1e-9 * np.minimum(self.capacity, 1e6)] = 0.0

    def resize(self, hosts: Ints, old: Floats, new: Floats) -> bool:
        """Give parts other sizes where they are; False, and nothing changed, if they do not fit."""
        count = np.bincount(hosts, minlength=len(self.capacity))[:, None]
        used = self.used + count * (new - old)
        if (used > self.capacity * (1 + 1e-12))[hosts].any():
            return False
        self.used = used
        return True
