"""Most throughput, or least makespan."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
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


class LeastMakespan(Shares):
    """All jobs are through as early as they can be: most of the least throughput per step that is left.

    Narayanan et al., OSDI 2020, §4.2.
    """

    name: ClassVar[str] = "least_makespan"
    uses: ClassVar[Uses] = ("expected",)

    def solve(self, moment: Moment) -> Floats:
        """One linear program."""
        return most_level(moment, moment.speed, np.maximum(moment.left, 1.0))
