"""Least attained service."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from mfcp.simulator.policies.base import Keys, Ordering, View


class Las(Ordering):
    """Jobs by the service that they have had, in levels; preemptive.

    It knows nothing of durations. Source: discretised two-dimensional LAS of Gu et al., "Tiresias", NSDI 2019.
    """

    name: ClassVar[str] = "las"
    preempts: ClassVar[bool] = True
    limits: tuple[float, ...] = Field((600.0, 3600.0, 21600.0, 129600.0), description="accelerator-seconds, ascending")

    within: Literal["submission", "entry"] = Field(
        "submission", description="order inside a level; by entry, under semantics that keep the order of equal keys"
    )

    promote: float | None = Field(
        None, gt=0, description="a job that has waited so many times as long as it ran goes back to the first level, as"
        " if it had not run; none does by default",
    )  # fmt: skip

    @field_validator("limits")
    @classmethod
    def _ascend(cls, limits: tuple[float, ...]) -> tuple[float, ...]:
        if not all(low < high for low, high in pairwise((0.0, *limits))):
            raise ValueError("expected numbers above 0, each above the one before")
        return limits

    def keys(self, view: View) -> Keys:
        """By level, then as `within` says."""
        value = view.submit if self.within == "submission" else np.zeros(len(view.submit))
        return Keys(value, limits=np.array(self.limits), promote=self.promote or np.inf)
