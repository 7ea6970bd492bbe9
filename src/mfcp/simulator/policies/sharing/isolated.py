"""An equal split."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Moment, Shares


class EvenTime(Shares):
    """Every job has the same share of time, and for that all accelerators that it asks for.

    GandivaFair among equal users (Chaudhary et al., "Balancing efficiency and fairness", EuroSys 2020), as Shockwave's
    simulator has it.
    """

    name: ClassVar[str] = "even_time"
    blind: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """As much as there would be of jobs of one accelerator; what does not fit waits for its turn."""
        share = np.tile(moment.size / len(moment.job), (len(moment.job), 1))
        return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0))


class Isolated(Shares):
    """Every job has the same share of every type, whatever the others need: what finish-time fairness divides by."""

    name: ClassVar[str] = "isolated"
    blind: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """The split, at most one in all."""
        share = np.tile(moment.size / len(moment.job), (len(moment.job), 1)) / moment.gpus[:, None]
        return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0))
