"""MuxFlow: offline jobs share the accelerators of online ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field
from scipy.optimize import linear_sum_assignment

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Moment, Shares
from mfcp.simulator.policies.sharing.in_turn import fastest_with_room


class MuxFlow(Shares):
    """Jobs with a deadline are online: each has accelerators of its own, and an offline one may share them.

    Online jobs come first, then offline ones while there is room, each in the order of submission on the fastest type.
    Offline jobs that find none share with online ones: the matching of most speed, each offline job's over that alone
    on its host's type, among the pairs in which the online job keeps at least the part `keep` of its own. Liu et al.,
    "MuxFlow: efficient GPU sharing in production-level clusters with more than 10000 GPUs", 2023, §4; speeds are
    measured here instead of predicted, and nothing sets how many multiprocessors a job has.
    """

    name: ClassVar[str] = "muxflow"
    strict: ClassVar[bool] = True
    packs: ClassVar[bool] = True
    keep: float = Field(0.8, ge=0, le=1, description="least part of its speed that an online job keeps in a pair")

    def solve(self, moment: Moment) -> Floats:
        """Places, then a matching."""
        k = len(moment.job)
        online = np.isfinite(moment.deadline)
        order = np.concatenate([np.flatnonzero(online), np.flatnonzero(~online)])
        kinds = fastest_with_room(moment, order)
        placed = order[: len(kinds)]
        share = np.zeros((k + len(moment.pair), len(moment.size)))
        share[placed, kinds] = 1.0
        place = np.full(k, -1)
        place[placed] = kinds
        for row in self._matched(moment, online, place):
            host = moment.pair[row][place[moment.pair[row]] >= 0][0]
            share[host] = 0.0
            share[k + row, place[host]] = 1.0
        return share

    def _matched(self, moment: Moment, online: np.ndarray, place: Ints) -> Ints:
        """Rows of the pairs that share: of a placed online job and an offline one that waits."""
        pair, number = moment.pair, np.arange(len(moment.pair))
        first = online[pair[:, 0]] & (place[pair[:, 0]] >= 0)
        side = np.where(first, 0, 1)  # which of the two is the host
        host, guest = pair[number, side], pair[number, 1 - side]
        on = place[host]
        fine = online[host] & (on >= 0) & ~online[guest] & (place[guest] < 0)
        number, host, guest, side, on = (each[fine] for each in (number, host, guest, side, on))
        kept = moment.kept
        gain = kept[number, on, 1 - side]
        fine = (kept[number, on, side] >= self.keep) & (gain > 0)
        weight = np.zeros((len(place), len(place)))
        row = np.zeros((len(place), len(place)), np.int64)
        weight[host[fine], guest[fine]], row[host[fine], guest[fine]] = gain[fine], number[fine]
        hosts, guests = linear_sum_assignment(weight, maximize=True)
        chosen = weight[hosts, guests] > 0
        return np.asarray(row[hosts[chosen], guests[chosen]])
