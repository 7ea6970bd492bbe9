"""Least laxity first."""

from __future__ import annotations

from typing import ClassVar

from mfcp.simulator.policies.base import Keys, Ordering, Uses, View


class LeastLaxity(Ordering):
    """Jobs by deadline minus the time that they are believed to need still; preemptive."""

    name: ClassVar[str] = "least_laxity"
    uses: ClassVar[Uses] = ("expected", "deadline")
    preempts: ClassVar[bool] = True

    def keys(self, view: View) -> Keys:
        """The laxity, but for the present time, which is the same for all."""
        return Keys(view.deadline, -1.0)
