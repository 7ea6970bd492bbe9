"""Graphs to times: a network that learns what multiplies every operator's roofline, from times of whole graphs.

    h_v   = mlp([shape_v, embedding of operator and class, W · classes of producers and consumers])
    w_vi  = roofline_vi · exp(bounded linear(h_v)_i)           seconds per sample of operator v on cluster i
    t_gi  = Σ_v (b_gi w_vi + launch_i(operator of v))          seconds of a step of b_gi samples

One round of message passing over the kinds of neighbours says what a compiler fuses and what a cache still holds. Its
inputs never change, so it runs once per distinct operator (`mfcp.tasks.distinct`). Operators that are known but were
never trained on fall back to their class, unknown ones to `other`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from mfcp.errors import DataError
from mfcp.files import replacing
from mfcp.tasks.distinct import DistinctOperators
from mfcp.tasks.graphs import OperatorGraphs
from mfcp.tasks.roofline import Accelerator

Floats = NDArray[np.float64]
Weights = dict[str, NDArray[np.float32]]


class TimingRules(BaseModel):
    """Sizes and training of the network; the mean log time of `members` networks is what counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    hidden: int = Field(32, ge=1)
    embedding: int = Field(8, ge=1, description="numbers per operator")
    dropout: float = Field(0.1, ge=0, lt=1)
    epochs: int = Field(40, ge=1)
    tasks: int = Field(64, ge=1, description="tasks of a training step")
    lr: float = Field(0.02, gt=0, description="peak learning rate of one cycle")
    weight_decay: float = Field(0.01, ge=0)
    huber: float = Field(0.3, gt=0, description="error of log time beyond which the loss grows linearly")
    members: int = Field(3, ge=1)


@dataclass(frozen=True)
class MeasuredSteps:
    """Times of n tasks on M clusters.

    Args:
        graph: (n,) position of each task's graph.
        batch: (M, n) samples of a step; nan where there is no time.
        seconds: (M, n) seconds of a step, nan where unknown.
    """

    graph: NDArray[np.int64]
    batch: Floats
    seconds: Floats

    def select(self, tasks: NDArray[Any]) -> MeasuredSteps:
        """Some of the tasks, by index or mask."""
        return MeasuredSteps(self.graph[tasks], self.batch[:, tasks], self.seconds[:, tasks])


@dataclass(frozen=True)
class OperatorTimes:
    """A trained network: predicts times of any operator graph on the clusters that it was trained for."""

    rules: TimingRules
    accelerators: tuple[Accelerator, ...]
    members: tuple[Weights, ...]

    @classmethod
    def fit(
        cls,
        graphs: OperatorGraphs,
        accelerators: tuple[Accelerator, ...],
        steps: MeasuredSteps,
        *,
        seed: int,
        rules: TimingRules | None = None,
        advance: Callable[[], Any] = lambda: None,
    ) -> OperatorTimes:
        """Train on measured steps; the same arguments give the same weights.

        Args:
            graphs: holds the tasks' graphs; no other one is looked at.
            accelerators: M, public figures of the clusters.
            steps: of training tasks.
            seed: of weights and order; the caller's random state is left alone.
            rules: sizes and training.
            advance: called once per epoch of a member.

        Raises:
            DataError: no time at all on a cluster.
        """
        from mfcp.tasks.timing_network import train_member

        rules = rules or TimingRules()
        missing = np.flatnonzero(~np.isfinite(steps.seconds).any(axis=1))
        if len(missing):
            raise DataError(f"cluster {missing[0]}: none of {len(steps.graph)} training tasks has a time; leave it out")
        operators = graphs.distinct.take(steps.graph)
        members = [
            train_member(rules, operators, accelerators, steps, [seed, m], advance) for m in range(rules.members)
        ]
        return cls(rules, accelerators, tuple(members))

    def log_seconds(self, operators: DistinctOperators, batch: Floats | None = None) -> Floats:
        """(M, n) predicted log seconds of a step of `batch` (M, n) samples, else of each cluster's typical batch."""
        from mfcp.tasks.timing_network import apply_member

        if batch is None:
            typical = np.array([a.batch for a in self.accelerators])
            batch = np.repeat(typical[:, None], operators.counts.shape[0], axis=1)
        predicted: Floats = np.mean(
            [apply_member(self.rules, w, operators, self.accelerators, batch) for w in self.members], axis=0
        )
        return predicted

    def save(self, path: Path) -> None:
        """Write weights, clusters and rules as one safetensors file, whole or not at all."""
        from safetensors.numpy import save

        arrays = {f"{m}.{name}": value for m, weights in enumerate(self.members) for name, value in weights.items()}
        about = {"rules": self.rules.model_dump(), "accelerators": [asdict(a) for a in self.accelerators]}
        with replacing(path) as temporary:
            temporary.write_bytes(save(arrays, metadata={"operator_times": json.dumps(about)}))

    @classmethod
    def load(cls, path: Path) -> OperatorTimes:
        """What `save` wrote.

        Raises:
            DataError: no such file, or not one of these.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {})["operator_times"])
                rules = TimingRules(**about["rules"])
                members: list[Weights] = [{} for _ in range(rules.members)]
                for key in file.keys():  # noqa: SIM118
                    member, _, name = key.partition(".")
                    members[int(member)][name] = file.get_tensor(key)
            return cls(rules, tuple(Accelerator(**a) for a in about["accelerators"]), tuple(members))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(f"{path}: no operator times written by this program ({error}); fit them again") from None
