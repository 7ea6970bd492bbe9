"""Max-min fairness of effective throughput."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Moment, Shares
from mfcp.simulator.policies.programs import ShareProgram


class MaxMin(Shares):
    """The least effective throughput over that of an equal split is as large as it can be.

    Narayanan et al., "Heterogeneity-aware cluster scheduling", OSDI 2020, §4.1.
    """

    name: ClassVar[str] = "max_min"

    def solve(self, moment: Moment) -> Floats:
        """One linear program."""
        return most_level(moment, moment.speed, moment.equal_split)


class LasShares(Shares):
    """The same for time instead of throughput: least attained service, blind to types."""

    name: ClassVar[str] = "las_shares"
    blind: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """One linear program, in which all types are equally fast."""
        alike = (moment.speed > 0).astype(float)
        return most_level(moment, alike, replace(moment, speed=np.ones_like(moment.speed)).equal_split)


def most_level(moment: Moment, speed: Floats, unit: Floats) -> Floats:
    """Maximise the least of sum_k speed_ik x_ik / unit_i; (k, K)."""
    program = ShareProgram(moment.gpus, moment.size, moment.speed > 0, 1)
    level = program.column(0, np.ones(len(unit)))
    program.at_most(level - program.weighted(speed / unit[:, None]), np.zeros(len(unit)))
    cost = np.zeros(program.columns)
    cost[-1] = -1.0
    return program.minimise(cost)
