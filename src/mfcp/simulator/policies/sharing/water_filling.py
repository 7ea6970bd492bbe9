"""Water filling: after the least level, the next least is as large as it can be, and so on."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Bools, Floats
from mfcp.simulator.policies.base import Moment, Shares
from mfcp.simulator.policies.programs import ShareProgram

_NEAR = 1e-4  # of a level: less than that is no gain, as of what the solver returns


class WaterFilling(Shares):
    """Max-min fairness to the end: jobs that cannot get more keep what they have, and the others go on to rise.

    `max_min` leaves open what a job gets beyond the least level. Narayanan et al., OSDI 2020, §4.3, of one level of
    jobs with equal weights.
    """

    name: ClassVar[str] = "water_filling"

    def solve(self, moment: Moment) -> Floats:
        """Two linear programs for every level."""
        unit = moment.equal_split
        floor, rising = np.zeros(len(unit)), np.ones(len(unit), bool)
        while True:
            level, share = _risen(moment, unit, floor, rising)
            floor = np.where(rising, level, floor)
            gain = _slack(moment, unit, floor, rising)
            stuck = rising & (gain <= _NEAR * max(level, _NEAR))
            if not stuck.any():  # the solver sees none: those that gain least
                stuck = rising & (gain <= gain[rising].min() * (1 + _NEAR))
            rising = rising & ~stuck
            if not rising.any():
                return share


def _risen(moment: Moment, unit: Floats, floor: Floats, rising: Bools) -> tuple[float, Floats]:
    """The largest common level of those that rise, and shares that give it, with all floors kept."""
    program = ShareProgram(moment.gpus, moment.size, moment.speed > 0, 1)
    done = program.weighted(moment.speed / unit[:, None])
    program.at_most(program.column(0, rising.astype(float)) - done, np.where(rising, 0.0, -floor * (1 - _NEAR / 10)))
    cost = np.zeros(program.columns)
    cost[-1] = -1.0
    share = program.minimise(cost)
    levels = (moment.speed / unit[:, None] * share).sum(axis=1)
    return float(levels[rising].min()), share


def _slack(moment: Moment, unit: Floats, floor: Floats, rising: Bools) -> Floats:
    """(k,) how much each could rise above its floor if all do it together as far as they can, at most by the floor."""
    k = len(unit)
    program = ShareProgram(moment.gpus, moment.size, moment.speed > 0, k)
    done = program.weighted(moment.speed / unit[:, None])
    own = program.own_columns(0, np.ones(k))
    program.at_most(own - done, -floor * (1 - _NEAR / 10))
    program.at_most(own, np.where(rising, np.maximum(floor, _NEAR), 0.0))
    program.at_most(-own, np.zeros(k))
    cost = np.zeros(program.columns)
    cost[-k:] = -1.0
    share = program.minimise(cost)
    gain: Floats = (moment.speed / unit[:, None] * share).sum(axis=1) - floor
    return gain
