"""A large program of shares in parts that are solved apart."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, cast

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Moment, Shares
from mfcp.simulator.policies.sharing.max_min import most_level


class MaxMinInParts(Shares):
    """Max-min fairness in `parts`: so many groups of jobs by chance, each with an equal part of every type.

    Narayanan et al., "Solving large-scale granular resource allocation problems efficiently with POP", SOSP 2021.
    Faster, and the least level is lower where a part gets jobs that need the same type.
    """

    name: ClassVar[str] = "max_min_in_parts"
    parts: int = Field(4, ge=1, description="groups of jobs")

    def solve(self, moment: Moment) -> Floats:
        """A linear program for every group."""
        k = len(moment.job)
        order = list(range(k))
        moment.random.shuffle(order)
        share = np.zeros((k, len(moment.size)))
        groups = [np.array(sorted(order[first :: self.parts])) for first in range(min(self.parts, k))]
        for rows in groups:
            part = replace(
                moment, job=moment.job[rows], gpus=moment.gpus[rows], speed=moment.speed[rows], left=moment.left[rows],
                waited=moment.waited[rows], isolated=moment.isolated[rows], before=moment.before[rows],
                size=cast(Ints, moment.size / len(groups)),  # a program takes parts of accelerators, too
            )  # fmt: skip
            share[rows] = most_level(part, part.speed, moment.equal_split[rows])
        return share
