"""An equal split."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Moment, Shares


class Isolated(Shares):
    """Every job has the same share of every type, whatever the others need: what finish-time fairness divides by."""

    name: ClassVar[str] = "isolated"
    blind: ClassVar[bool] = True

    def solve(self, moment: Moment) -> Floats:
        """The split, at most one in all."""
        share = np.tile(moment.size / len(moment.job), (len(moment.job), 1)) / moment.gpus[:, None]
        return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0))
