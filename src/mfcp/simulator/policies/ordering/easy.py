"""EASY backfilling."""

from __future__ import annotations

from typing import ClassVar

from mfcp.simulator.policies.base import Keys, Ordering, Skip, Uses, View


class Easy(Ordering):
    """First in, first out; a later job may pass if the first in line is not believed to start later for it.

    Source: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995.
    """

    name: ClassVar[str] = "easy"
    uses: ClassVar[Uses] = ("expected",)
    skip: Skip = "backfill"

    def keys(self, view: View) -> Keys:
        """By submission."""
        return Keys(view.submit)
