"""The heuristic order of MLFS."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Instant, Keys, Ordering, Uses, View
from mfcp.simulator.qore.training_losses import FALL


class Mlfs(Ordering):
    """Jobs by importance times urgency: how much their loss falls next over what it takes, and how little time is left.

    Loss after a part p of a job is 1 / (1 + 9 p), an assumed curve, as SLAQ has it. Importance is its fall in the next
    second over accelerators; urgency is the whole job's time over what is left until its deadline, at least of what it
    still takes, and 1 without a deadline. Jobs whose loss falls by less than `gain` of itself an iteration have
    converged: they come last, which is what is left of overload control where every job runs to its end. Wang et al.,
    "Job scheduling for large-scale machine learning clusters", CoNEXT 2020: their heuristic, not what is learned on it.
    """

    name: ClassVar[str] = "mlfs"
    uses: ClassVar[Uses] = ("expected",)
    preempts: ClassVar[bool] = True
    asks: ClassVar[bool] = True
    gain: float = Field(
        0.0, ge=0, description="relative fall of the loss in an iteration below which a job has converged"
    )

    def keys(self, view: View) -> Keys:
        """Unknown before the first event."""
        return Keys(np.zeros(len(view.submit)))

    def values(self, view: View, instant: Instant) -> Floats:
        """Their priority with its sign turned; those that have converged behind all others."""
        active = instant.active
        whole = np.maximum(instant.executed + instant.left, 1e-9)
        part = np.clip(instant.executed / whole, 0.0, 1.0)
        fall = FALL / (1 + FALL * part) ** 2 / whole / view.gpus[active]
        deadline = view.deadline[active]
        time = np.maximum(np.where(np.isfinite(deadline), deadline - instant.now, whole), instant.left)
        value = -fall * whole / np.maximum(time, 1e-9)
        self.check_known(value)
        slow = FALL / (1 + FALL * part) / np.maximum(view.iterations[active], 1.0) < self.gain
        return np.where(slow, -value, value)
