"""Gittins index of attained service."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.simulator.policies.base import Keys, Ordering, Uses, View


class Gittins(Ordering):
    """Jobs by their Gittins index: the best chance to end per service spent, given the service that they have had.

    The distribution of service is that of `View.history`; the index is constant between `levels` quantiles of it.
    Source: Gu et al., "Tiresias", NSDI 2019.
    """

    name: ClassVar[str] = "gittins"
    uses: ClassVar[Uses] = ("expected",)
    preempts: ClassVar[bool] = True
    levels: int = Field(16, ge=2, description="quantiles of the history at which the index changes")

    def keys(self, view: View) -> Keys:
        """By the rank of the level's index, then by submission."""
        history = view.history
        limits = np.unique(np.quantile(history, np.arange(1, self.levels) / self.levels))
        index = [gittins_index(history, attained) for attained in (0.0, *limits)]
        return Keys(view.submit, limits=limits, rank=-np.array(index))


def gittins_index(service: Floats, attained: float) -> float:
    """max over d of P(S - a <= d | S > a) / E[min(S - a, d) | S > a], over the distances to samples of S.

    Args:
        service: (h,) samples of S.
        attained: a.

    Returns:
        0 beyond the largest sample.
    """
    left = np.sort(service[service > attained]) - attained
    if len(left) == 0:
        return 0.0
    ended = np.arange(1, len(left) + 1)
    spent = np.cumsum(left) + left * (len(left) - ended)
    return float((ended / spent).max())
