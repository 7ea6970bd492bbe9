"""The queue order of Qore-DL."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Instant, Keys, Ordering, Uses, View
from mfcp.simulator.qore.equations import priority


class Qore(Ordering):
    """Urgent jobs first; large ones first while the cluster is lightly loaded, small ones first otherwise.

    Eqs. (8) and (9) of Hua et al., "Qore-DL", J. Systems Architecture 130 (2022), with the share of accelerators that a
    job asks for as its requirement. Light means that all active jobs together fit. Overdue jobs come first, the most
    overdue before the others.
    """

    name: ClassVar[str] = "qore"
    uses: ClassVar[Uses] = ("deadline",)
    preempts: ClassVar[bool] = True
    asks: ClassVar[bool] = True

    def keys(self, view: View) -> Keys:
        """Unknown before the first event."""
        return Keys(np.zeros(len(view.submit)))

    def values(self, view: View, instant: Instant) -> Floats:
        """The priority with its sign turned."""
        active = instant.active
        share = view.gpus[active] / view.cluster.accelerators
        light = view.gpus[active].sum() <= view.cluster.accelerators
        return -priority(share, view.deadline[active] - instant.now, 0.0 if light else 1.0)
