"""First in, first out."""

from __future__ import annotations

from typing import ClassVar

from mfcp.simulator.policies.base import Keys, Ordering, Skip, View


class Fifo(Ordering):
    """Jobs in the order of their submission; `skip: any` lets later ones pass where an earlier one does not fit."""

    name: ClassVar[str] = "fifo"
    skip: Skip = "nobody"

    def keys(self, view: View) -> Keys:
        """By submission."""
        return Keys(view.submit)
