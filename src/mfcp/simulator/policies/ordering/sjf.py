"""Shortest job first."""

from __future__ import annotations

from typing import ClassVar

from mfcp.simulator.policies.base import Keys, Ordering, Uses, View


class Sjf(Ordering):
    """Jobs by their expected duration; a running job is not stopped."""

    name: ClassVar[str] = "sjf"
    uses: ClassVar[Uses] = ("expected",)

    def keys(self, view: View) -> Keys:
        """By expected duration."""
        return Keys(view.expected)
