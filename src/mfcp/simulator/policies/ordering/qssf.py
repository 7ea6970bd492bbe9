"""Quasi-shortest service first."""

from __future__ import annotations

from typing import ClassVar

from mfcp.simulator.policies.base import Keys, Ordering, Uses, View


class Qssf(Ordering):
    """Jobs by their expected accelerator-seconds; a running job is not stopped. Meant for the belief `history`.

    Source: Hu et al., "Characterization and prediction of deep learning workloads", SC 2021 (Helios).
    """

    name: ClassVar[str] = "qssf"
    uses: ClassVar[Uses] = ("expected",)

    def keys(self, view: View) -> Keys:
        """By expected service."""
        return Keys(view.expected * view.gpus)
