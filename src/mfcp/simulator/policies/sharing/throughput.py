"""Most throughput, or least makespan."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.errors import SettingsError
from mfcp.simulator.policies.base import Moment, Shares, Uses
from mfcp.simulator.policies.programs import ShareProgram
from mfcp.simulator.policies.sharing.max_min import most_level


class MostThroughput(Shares):
    """The sum of throughputs over those of an equal split is as large as it can be: efficient, not fair.

    `plain` sums steps per second, whatever a step of a job is, as Shockwave's simulator does.
    """

    name: ClassVar[str] = "most_throughput"
    plain: bool = Field(False, description="steps per second as they are, not over those of an equal split")

    def solve(self, moment: Moment) -> Floats:
        """One linear program."""
        program = ShareProgram(moment.gpus, moment.size, moment.speed > 0, 0)
        unit = 1.0 if self.plain else moment.equal_split[:, None]
        return program.minimise(-(moment.speed / unit).ravel())


class ThroughputPerCost(Shares):
    """The sum of throughputs, each over that of an equal split, for what they cost: cheap types first.

    Narayanan et al., OSDI 2020, §4.2; `prices` are in the order of the cluster's types.
    """

    name: ClassVar[str] = "throughput_per_cost"
    prices: tuple[float, ...] = Field((), description="of an accelerator-hour of each type; equal if none")

    def solve(self, moment: Moment) -> Floats:
        """One linear program.

        Raises:
            SettingsError: prices that are not one for every type, or not above 0.
        """
        prices = np.array(self.prices or (1.0,) * len(moment.size))
        if len(prices) != len(moment.size) or not (prices > 0).all():
            raise SettingsError(
                f"policy 'throughput_per_cost': prices {list(self.prices)}; expected {len(moment.size)} above 0, in "
                "the order of the cluster's types"
            )
        program = ShareProgram(moment.gpus, moment.size, moment.speed > 0, 0)
        return program.minimise(-(moment.speed / moment.equal_split[:, None] / prices).ravel())


class LeastMakespanPacked(Shares):
    """Least makespan where two jobs may share accelerators."""

    name: ClassVar[str] = "least_makespan_packed"
    uses: ClassVar[Uses] = ("expected",)
    packs: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """One linear program, with a column for each pair on each type."""
        return most_level(moment, moment.speed, np.maximum(moment.left, 1.0), packs=True)


class LeastMakespan(Shares):
    """All jobs are through as early as they can be: most of the least throughput per step that is left.

    Narayanan et al., OSDI 2020, §4.2.
    """

    name: ClassVar[str] = "least_makespan"
    uses: ClassVar[Uses] = ("expected",)

    def solve(self, moment: Moment) -> Floats:
        """One linear program."""
        return most_level(moment, moment.speed, np.maximum(moment.left, 1.0))
