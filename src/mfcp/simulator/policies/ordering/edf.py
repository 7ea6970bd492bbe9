"""Earliest deadline first."""

from __future__ import annotations

from typing import ClassVar

from mfcp.simulator.policies.base import Keys, Ordering, Uses, View


class Edf(Ordering):
    """Jobs by their deadline; preemptive."""

    name: ClassVar[str] = "edf"
    uses: ClassVar[Uses] = ("deadline",)
    preempts: ClassVar[bool] = True

    def keys(self, view: View) -> Keys:
        """By deadline; those without one last."""
        return Keys(view.deadline)
