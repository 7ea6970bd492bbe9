"""What networks over operators learn from, and the settings of their training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Floats, Ints

Weights = dict[str, NDArray[np.float32]]
"""Arrays of a trained network by name."""


class TimingSettings(BaseModel):
    """Sizes and training of the networks, and the weight of the roofline beside them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    hidden: int = Field(64, ge=1)
    embedding: int = Field(8, ge=1, description="numbers per operator")
    dropout: float = Field(0.1, ge=0, lt=1)
    epochs: int = Field(40, ge=1)
    tasks: int = Field(64, ge=1, description="tasks of a training step")
    lr: float = Field(0.02, gt=0, description="peak learning rate of one cycle")
    weight_decay: float = Field(0.01, ge=0)
    huber: float = Field(0.3, gt=0, description="error of log time beyond which the loss grows linearly")
    members: int = Field(3, ge=1)
    roofline_share: float = Field(0.2, ge=0, le=1)


@dataclass(frozen=True)
class MeasuredSteps:
    """Times of n tasks on M clusters.

    Args:
        graph: (n,) position of each task's graph.
        batch: (M, n) samples of a step; nan where there is no time.
        seconds: (M, n) seconds of a step, nan where unknown.
    """

    graph: Ints
    batch: Floats
    seconds: Floats

    def select(self, tasks: NDArray[Any]) -> MeasuredSteps:
        """Some of the tasks, by index or mask."""
        return MeasuredSteps(self.graph[tasks], self.batch[:, tasks], self.seconds[:, tasks])
