"""Shortest remaining time first."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.simulator.policies.base import Keys, Ordering, Uses, View


class Srtf(Ordering):
    """Jobs by the time that they are believed to need still; preemptive."""

    name: ClassVar[str] = "srtf"
    uses: ClassVar[Uses] = ("expected",)
    preempts: ClassVar[bool] = True

    def keys(self, view: View) -> Keys:
        """Seconds that are left."""
        return Keys(np.zeros(len(view.submit)), 1.0)
