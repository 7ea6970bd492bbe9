"""Max-min fairness of effective throughput."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Moment, Shares
from mfcp.simulator.policies.programs import NO_PAIRS, ShareProgram


class MaxMin(Shares):
    """The least effective throughput over that of an equal split is as large as it can be.

    Narayanan et al., "Heterogeneity-aware cluster scheduling", OSDI 2020, §4.1.
    """

    name: ClassVar[str] = "max_min"

    def solve(self, moment: Moment) -> Floats:
        """One linear program."""
        return most_level(moment, moment.speed, moment.equal_split)


class MaxMinPacked(Shares):
    """The same where two jobs may share accelerators: a pair has a share of its own, and both run as fast as together.

    Narayanan et al., OSDI 2020, §3.1 and §4.1.
    """

    name: ClassVar[str] = "max_min_packed"
    packs: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """One linear program, with a column for each pair on each type."""
        return most_level(moment, moment.speed, moment.equal_split, packs=True)


class LasShares(Shares):
    """The same for time instead of throughput: least attained service, blind to types."""

    name: ClassVar[str] = "las_shares"
    blind: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """One linear program, in which all types are equally fast."""
        alike = (moment.speed > 0).astype(float)
        return most_level(moment, alike, replace(moment, speed=np.ones_like(moment.speed)).equal_split)


def most_level(moment: Moment, speed: Floats, unit: Floats, *, packs: bool = False) -> Floats:
    """Maximise the least of sum_k speed_ik x_ik / unit_i, with what pairs do if they have shares; (k, K)."""
    pair = moment.pair if packs else NO_PAIRS
    both = moment.together[: len(pair)]
    program = ShareProgram(moment.gpus, moment.size, moment.speed > 0, 1, pair, both.min(axis=2, initial=np.inf) > 0)
    level = program.column(0, np.ones(len(unit)))
    part = both / unit[pair][:, None, :] if len(pair) else None
    program.at_most(level - program.weighted(speed / unit[:, None], part), np.zeros(len(unit)))
    cost = np.zeros(program.columns)
    cost[-1] = -1.0
    return program.minimise(cost)
