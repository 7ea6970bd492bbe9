"""Shortest remaining service first."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.simulator.policies.base import Keys, Ordering, Uses, View


class Srsf(Ordering):
    """Jobs by the accelerator-seconds that they are believed to need still; preemptive.

    Source: Gu et al., "Tiresias", NSDI 2019.
    """

    name: ClassVar[str] = "srsf"
    uses: ClassVar[Uses] = ("expected",)
    preempts: ClassVar[bool] = True

    def keys(self, view: View) -> Keys:
        """Accelerator-seconds that are left."""
        return Keys(np.zeros(len(view.submit)), view.gpus.astype(float))
