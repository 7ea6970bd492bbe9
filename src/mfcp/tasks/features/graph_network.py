"""The network of the `gnn` encoder: trained with torch_geometric, which takes seconds to load, applied without it.

    x_v = log sizes of a node, and its log roofline times on a few accelerators
    h_v <- h_v + relu(W h_v + W_in mean of producers' h + W_out mean of consumers' h)
    log t_v = linear([h_v, x_v])                            times of a node on virtual accelerators
    z   = linear(log Σ_v t_v)                               one vector per graph
    log t = linear(z)                                       times of the graph

A graph's time is the sum of its operators' times, so the readout is a sum in the log domain; nodes are
supervised too, as a hundred graphs are few but their ten thousand nodes are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mfcp.arrays import Floats, Ints
from mfcp.tasks.graphs.coarsening import CoarseGraphs
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.threads import one_thread


class NetworkSettings(Protocol):
    """Sizes and training budget of the network, as `mfcp.tasks.features.encoder.GnnEncoder` has them."""

    @property
    def size(self) -> int:
        """Numbers per graph."""
        ...

    @property
    def hidden(self) -> int:
        """Width of a layer."""
        ...

    @property
    def layers(self) -> int:
        """Rounds of message passing."""
        ...

    @property
    def steps(self) -> int:
        """Training steps."""
        ...

    @property
    def graphs(self) -> int:
        """Graphs of a training step."""
        ...

    @property
    def lr(self) -> float:
        """Peak learning rate."""
        ...

    @property
    def weight_decay(self) -> float:
        """Of AdamW."""
        ...


Weights = dict[str, NDArray[np.float32]]

FEATURES = len(CLASS_NAMES) + 5
PROBES = 4  # accelerators whose times a node states; the others' are to be predicted
_LOG_SECONDS = (-30.0, 30.0)  # whose exponentials are far from the limits of float32
_SHORTEST = 1e-12


@dataclass(frozen=True)
class _Batch:
    """Some graphs end to end.

    (n,) rows among all nodes, (n, FEATURES + PROBES) nodes, (2, E) edges, (n,) graph of each node, number of graphs.
    """

    rows: Tensor
    nodes: Tensor
    edges: Tensor
    graph: Tensor
    count: int


class _Unit(nn.Module):
    """Standard units, learned once from training values."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def fit(self, values: Tensor) -> None:
        scale = values.std(dim=0, unbiased=False)
        self.mean.copy_(values.mean(dim=0))
        self.scale.copy_(torch.where(scale > 1e-6, scale, torch.ones_like(scale)))

    def forward(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.scale


class MeanConvolution(nn.Module):
    """A trained `SAGEConv` of torch_geometric, with its parameters' names and, to the bit, its numbers."""

    def __init__(self, inputs: int, outputs: int, *, root_weight: bool = True) -> None:
        super().__init__()
        self.lin_l = nn.Linear(inputs, outputs)
        self.lin_r = nn.Linear(inputs, outputs, bias=False) if root_weight else None

    def forward(self, h: Tensor, edges: Tensor) -> Tensor:
        """(n, outputs) of nodes (n, inputs) and edges (2, E) from producers to consumers."""
        source, target = edges
        count = h.new_zeros(len(h)).scatter_add_(0, target, h.new_ones(len(target))).clamp(min=1)
        arriving = h.index_select(0, source)
        total = torch.zeros_like(h).scatter_add_(0, target[:, None].expand_as(arriving), arriving)
        out: Tensor = self.lin_l(total / count[:, None])
        return out if self.lin_r is None else out + self.lin_r(h)


class OperatorNetwork(nn.Module):
    """Coarse operator graphs to vectors and log times, see the head of this module.

    Args:
        settings: sizes.
        targets: K, accelerators whose times it states.
        convolution: makes a layer that passes messages, `SAGEConv` of torch_geometric or its equal.
    """

    def __init__(self, settings: NetworkSettings, targets: int, convolution: Callable[..., nn.Module]) -> None:
        super().__init__()
        width = settings.hidden
        inputs = FEATURES + PROBES
        self.embed = nn.Linear(inputs, width)
        self.producers = nn.ModuleList(convolution(width, width) for _ in range(settings.layers))
        self.consumers = nn.ModuleList(convolution(width, width, root_weight=False) for _ in range(settings.layers))
        self.time = nn.Linear(width + inputs, targets)
        self.vector = nn.Linear(targets, settings.size)
        self.head = nn.Linear(settings.size, targets)
        self.node, self.time_unit, self.total = _Unit(inputs), _Unit(targets), _Unit(targets)

    def forward(self, batch: _Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors (G, size), log times of graphs (G, K) in standard units and of nodes (n, K) in seconds."""
        x = self.node(batch.nodes)
        h = torch.relu(self.embed(x))
        backward = batch.edges.flip(0)
        for producers, consumers in zip(self.producers, self.consumers, strict=True):
            h = h + torch.relu(producers(h, batch.edges) + consumers(h, backward))
        times = self.time(torch.cat([h, x], dim=1)) * self.time_unit.scale + self.time_unit.mean
        total = _sum(times.clamp(*_LOG_SECONDS).exp(), batch).clamp_min(_SHORTEST).log()
        z = self.vector(self.total(total))
        return z, self.head(z), times


@one_thread()
def train_network(settings: NetworkSettings, graphs: CoarseGraphs, seconds: Floats, train: Ints, seed: int) -> Weights:
    """Weights after training on the graphs at positions `train`.

    The loss is the squared error of the nodes' log times plus that of the graphs'.

    Args:
        settings: sizes and training budget.
        graphs: all coarse graphs.
        seconds: (n, K) roofline times of their nodes; only those of training graphs are read.
        train: positions of training graphs.
        seed: of initial weights and of the order of graphs; the caller's random state is left alone.
    """
    from mfcp.tasks.features.convolutions import SAGEConv

    nodes = _node_features(graphs, seconds)
    goal = torch.from_numpy(np.log(np.maximum(seconds, _SHORTEST))).float()
    learned = _take(graphs, nodes, train)
    totals = _sum(goal[learned.rows].exp(), learned).log()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = OperatorNetwork(settings, goal.shape[1], SAGEConv)
    network.node.fit(learned.nodes)
    network.time_unit.fit(goal[learned.rows])
    network.total.fit(totals)
    totals = network.total(totals)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
    rng = np.random.default_rng(seed)
    size = min(settings.graphs, len(train))
    for _ in range(settings.steps):
        chosen = rng.choice(len(train), size, replace=False)
        batch = _take(graphs, nodes, train[chosen])
        _, predicted, times = network(batch)
        error = (times - goal[batch.rows]) / network.time_unit.scale
        loss = error.square().mean() + (predicted - totals[torch.from_numpy(chosen)]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}


@one_thread()
def apply_network(
    settings: NetworkSettings, weights: Weights, graphs: CoarseGraphs, seconds: Floats
) -> tuple[Floats, Floats]:
    """Vectors (G, size) and predicted log times (G, K) of all graphs, whose nodes take (n, K) `seconds`."""
    network = OperatorNetwork(settings, len(weights["total.mean"]), MeanConvolution)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    with torch.no_grad():
        z, times, _ = network(_take(graphs, _node_features(graphs, seconds), np.arange(len(graphs.ptr) - 1)))
        times = times * network.total.scale + network.total.mean
    return z.numpy().astype(np.float64), times.numpy().astype(np.float64)


def _node_features(graphs: CoarseGraphs, seconds: Floats) -> Tensor:
    """(n, FEATURES + PROBES): members by class and in all, FLOPs, bytes, parameters, largest output, each as
    log(1 + x); and log seconds on the probes.
    """
    columns = [graphs.members, graphs.members.sum(axis=1, keepdims=True)]
    columns += [amount[:, None] for amount in (graphs.flops, graphs.traffic, graphs.params, graphs.numel)]
    probes = np.log(np.maximum(seconds[:, _probes(seconds.shape[1])], _SHORTEST))
    return torch.from_numpy(np.concatenate([np.log1p(np.concatenate(columns, axis=1)), probes], axis=1)).float()


def _probes(count: int) -> list[int]:
    """The probes among `count` accelerators: first and last at either batch size."""
    return [0, count // 2 - 1, count // 2, count - 1]


def _take(graphs: CoarseGraphs, nodes: Tensor, chosen: Ints) -> _Batch:
    """The chosen graphs, renumbered to lie end to end."""
    sizes = np.diff(graphs.ptr)[chosen]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = _ranges(graphs.ptr[chosen], sizes)
    bounds = np.searchsorted(graphs.edges[0], graphs.ptr)
    counts = np.diff(bounds)[chosen]
    edges = graphs.edges[:, _ranges(bounds[chosen], counts)] + np.repeat(starts[:-1] - graphs.ptr[chosen], counts)
    graph = np.repeat(np.arange(len(chosen)), sizes)
    at = torch.from_numpy(rows)
    return _Batch(at, nodes[at], torch.from_numpy(edges), torch.from_numpy(graph), len(chosen))


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """start, start + 1, … of `size` numbers each, end to end."""
    ends = np.cumsum(sizes)
    ranges: Ints = np.arange(sizes.sum(), dtype=np.int64) + np.repeat(starts - (ends - sizes), sizes)
    return ranges


def _sum(values: Tensor, batch: _Batch) -> Tensor:
    return values.new_zeros(batch.count, values.shape[1]).index_add(0, batch.graph, values)
