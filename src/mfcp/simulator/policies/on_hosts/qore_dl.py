"""Qore-DL: configurator, scheduler and adjuster."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.hosting import Order, Queueing


class QoreDl(Queueing):
    """Jobs are sized for their deadlines, ordered by urgency and size, and changed while they run.

    Hua et al., "Qore-DL", J. Systems Architecture 130 (2022), by the equations of `mfcp.simulator.qore.equations`; each
    part can be left out.
    """

    name: ClassVar[str] = "qore_dl"
    uses: ClassVar[Uses] = ("expected", "deadline")
    order: Order = Field("qore", description="of the queue: submission, deadline, least need × time, or Eq. 8")
    sized: bool = Field(True, description="whether the configurator sizes jobs (Eq. 5), else the user does")
    adjusts: bool = Field(True, description="whether the adjuster changes running jobs")
