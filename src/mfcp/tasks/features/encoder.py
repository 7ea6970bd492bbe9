"""Encoders: a family of maps from operator graphs to feature vectors.

They learn from the graphs alone, so a vector can leak no label and heads on top of it can be cross-fitted honestly
(docs/decisions/0030). What measured times tell of operators is a forecast of its own (docs/decisions/0077).
"""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError
from mfcp.files import replacing
from mfcp.registry import Registered
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs

# 24 virtual accelerators: every peak (FLOP/s) with every bandwidth (bytes/s), at batch 1 and 64; launches in between.
_PEAKS = (3e12, 2e13, 1.2e14)
_BANDWIDTHS = (1.5e11, 5e11, 1.5e12, 4e12)
_BATCHES = (1, 64)
_LAUNCHES = (2e-6, 1e-5)
TARGETS = len(_PEAKS) * len(_BANDWIDTHS) * len(_BATCHES)


@dataclass(frozen=True)
class FittedEncoder:
    """A trained encoder: its settings and weights, none of them where it encodes nothing."""

    encoder: Encoder
    weights: dict[str, NDArray[np.float32]]

    def transform(self, graphs: OperatorGraphs) -> Floats:
        """(G, d) vectors of graphs, seen in training or not; each depends on its own graph only."""
        return self.encoder.encode(self.weights, graphs)

    def save(self, path: Path) -> None:
        """Write weights and settings as one safetensors file, whole or not at all."""
        from safetensors.numpy import save

        content = save({**self.weights}, metadata={"encoder": json.dumps(self.encoder.spec())})
        with replacing(path) as temporary:
            temporary.write_bytes(content)

    @classmethod
    def load(cls, path: Path) -> FittedEncoder:
        """The encoder that `save` wrote.

        Raises:
            DataError: no such file, or not an encoder.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                spec: dict[str, Any] = json.loads((file.metadata() or {})["encoder"])
                weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise DataError(f"{path}: not an encoder written by this program ({error}); run featurize again") from None
        return cls(Encoder.parse(spec), weights)


class Encoder(Registered):
    """Settings of an encoder, and how to train and apply it."""

    @abstractmethod
    def fit(self, graphs: OperatorGraphs, train: Ints, *, seed: int) -> FittedEncoder:
        """Train on the graphs at positions `train`; the same arguments give the same weights.

        Args:
            graphs: all graphs.
            train: positions of those to learn from.
            seed: of the training.
        """

    @abstractmethod
    def encode(self, weights: dict[str, NDArray[np.float32]], graphs: OperatorGraphs) -> Floats:
        """(G, d) vectors under trained weights."""


class NoEncoder(Encoder):
    """No vector at all: descriptors only."""

    name: ClassVar[str] = "none"

    def fit(self, graphs: OperatorGraphs, train: Ints, *, seed: int) -> FittedEncoder:
        """Nothing to train."""
        return FittedEncoder(self, {})

    def encode(self, weights: dict[str, NDArray[np.float32]], graphs: OperatorGraphs) -> Floats:
        """(G, 0)."""
        return np.empty((len(graphs.graph_id), 0))


class GnnEncoder(Encoder):
    """A message-passing network over coarse operator graphs, trained to predict analytic roofline times.

    See `mfcp.tasks.features.graph_network` for the architecture and `roofline_times` for what it learns to predict.
    """

    name: ClassVar[str] = "gnn"
    size: int = Field(4, ge=1, description="numbers per graph")
    hidden: int = Field(32, ge=1)
    layers: int = Field(2, ge=0, description="rounds of message passing")
    steps: int = Field(250, ge=1)
    graphs: int = Field(48, ge=1, description="graphs of a training step")
    lr: float = Field(0.01, gt=0)
    weight_decay: float = Field(0.01, ge=0)

    def fit(self, graphs: OperatorGraphs, train: Ints, *, seed: int) -> FittedEncoder:
        """Train on the roofline times of the graphs at positions `train`; about five seconds on one core.

        Raises:
            DataError: no graph to learn from.
        """
        from mfcp.tasks.features.graph_network import train_network

        if not len(train):
            raise DataError("no training task has an operator graph to learn from; choose featurize.encoder: none")
        return FittedEncoder(self, train_network(self, graphs.coarse, roofline_times(graphs), train, seed))

    def encode(self, weights: dict[str, NDArray[np.float32]], graphs: OperatorGraphs) -> Floats:
        """(G, size) vectors."""
        from mfcp.tasks.features.graph_network import apply_network

        return apply_network(self, weights, graphs.coarse, roofline_times(graphs))[0]


def roofline_times(graphs: OperatorGraphs) -> Floats:
    """(n, TARGETS) seconds of every coarse node on virtual accelerators, by the operator roofline.

    A node's time is the sum over its operators of launch + max(b · flops / peak, (b · bytes + 4 · parameters) /
    bandwidth), one forward pass of a batch of b samples in FP32; b is 1 for what runs once a step.
    """
    traffic, coarse = graphs.read + graphs.written, graphs.coarse
    times = np.empty((len(coarse.flops), TARGETS))
    for i, (batch, peak, bandwidth) in enumerate(_bank()):
        samples = np.where(graphs.once, 1, batch)
        seconds = np.maximum(samples * graphs.flops / peak, (samples * traffic + 4 * graphs.params) / bandwidth)
        times[:, i] = np.bincount(coarse.group, seconds + _LAUNCHES[i % len(_LAUNCHES)], len(times))
    return times


def _bank() -> list[tuple[int, float, float]]:
    return [(batch, peak, bandwidth) for batch in _BATCHES for peak in _PEAKS for bandwidth in _BANDWIDTHS]
