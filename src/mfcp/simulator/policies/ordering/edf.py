"""Earliest deadline first."""

from __future__ import annotations

from typing import ClassVar, Literal

from mfcp.simulator.policies.base import Keys, Ordering, View


class Edf(Ordering):
    """Jobs by their deadline; preemptive."""

    name: ClassVar[str] = "edf"
    uses: ClassVar[tuple[Literal["expected", "deadline"], ...]] = ("deadline",)
    preempts: ClassVar[bool] = True

    def keys(self, view: View) -> Keys:
        """By deadline; those without one last."""
        return Keys(view.deadline)
