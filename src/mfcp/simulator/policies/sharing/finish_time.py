"""Finish-time fairness."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Moment, Shares, Uses
from mfcp.simulator.policies.programs import ShareProgram


class FinishTime(Shares):
    """The largest ratio of a job's finish time to that of an equal split is as small as it can be.

    minimise max_i (waited_i + left_i / T_i(x)) / (isolated_i + left_i / equal_i); Mahajan et al., "Themis", NSDI 2020,
    as Narayanan et al., OSDI 2020, §4.2, state it over types.
    """

    name: ClassVar[str] = "finish_time"
    uses: ClassVar[Uses] = ("expected",)

    def solve(self, moment: Moment) -> Floats:
        """One conic program."""
        return fairest(moment, moment.speed)


class BlindFinishTime(Shares):
    """The same, with the speed on the first type for all types."""

    name: ClassVar[str] = "finish_time_blind"
    uses: ClassVar[Uses] = ("expected",)
    blind: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """One conic program."""
        return fairest(moment, np.broadcast_to(moment.speed[:, :1], moment.speed.shape) * (moment.speed > 0))


def fairest(moment: Moment, speed: Floats) -> Floats:
    """(k, K) shares of the least largest ratio."""
    program, cost = ratio_program(moment, speed)
    return program.minimise(cost)


def ratio_program(moment: Moment, speed: Floats) -> tuple[ShareProgram, Floats]:
    """Shares and the largest ratio, and the cost of it, which is 0 of the shares."""
    k = len(moment.job)
    equal = replace(moment, speed=speed).equal_split
    alone = moment.isolated + moment.left / equal
    program = ShareProgram(moment.gpus, moment.size, moment.speed > 0, k + 1)
    # y_0 is the ratio; z_i = y_{i+1} is at least equal_i / T_i(x), so that left / T = left / equal × z.
    slower = program.own_columns(1, moment.left / equal / alone)
    program.at_most(slower - program.column(0, np.ones(k)), -moment.waited / alone)
    program.product_at_least_one(program.weighted(speed / equal[:, None]), program.own_columns(1, np.ones(k)))
    cost = np.zeros(program.columns)
    cost[moment.speed.size] = 1.0
    return program, cost
