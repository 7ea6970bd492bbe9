"""The network of `mfcp.tasks.timing.operator_times`: modules, one training run, one prediction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mfcp.arrays import Floats
from mfcp.tasks.graphs.distinct import FEATURES, NEIGHBOURS, DistinctOperators
from mfcp.tasks.graphs.operators import CLASS_NAMES, OPERATORS
from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings, Weights
from mfcp.tasks.timing.roofline import LAUNCH, Accelerator, fit_factors, load_seconds, roofline_seconds, waiting_seconds
from mfcp.threads import one_thread

_LARGEST_FACTOR = 4.0  # log; an operator takes at most 55 times as long as its roofline says, and as little
_LARGEST_LAUNCH = 6.0  # log; 2 ms, as of a slow host that launches all of a training step
_FARTHEST = 4.0  # standard deviations that an unseen shape may be from the training operators
_LAUNCH_BOUND = 0.85  # median share of launches in a step above which a cluster is
_START = np.array([0.0, math.log(LAUNCH)])
_SHORTEST = 1e-12


@dataclass(frozen=True)
class _Inputs:
    """Of U operators in n graphs: (U, ·) features, (U,) codes, (U, M) rooflines; (nnz,) triples, and which of them run
    once a step; (n, O) launches; (U, M) seconds of waiting for memory.
    """

    shape: Tensor
    neighbours: Tensor
    operator: Tensor
    kind: Tensor
    roofline: Tensor
    row: Tensor
    column: Tensor
    count: Tensor
    once: Tensor
    launches: Tensor
    waiting: Tensor


class OperatorTimesNetwork(nn.Module):
    """Graphs to log seconds of a step on M clusters, see the head of `mfcp.tasks.timing.operator_times`."""

    centre: Tensor
    scale: Tensor

    def __init__(self, settings: TimingSettings, clusters: int) -> None:
        super().__init__()
        width, size = settings.hidden, settings.embedding
        self.of_class = nn.Embedding(len(CLASS_NAMES), size)
        self.of_operator = nn.Embedding(len(OPERATORS), size)
        self.into = nn.Linear(FEATURES + NEIGHBOURS + size, width)
        self.hidden = nn.Linear(width, width)
        self.factor = nn.Linear(width + size, clusters)
        self.launch = nn.Embedding(len(OPERATORS), clusters)
        self.dropout = nn.Dropout(settings.dropout)
        nn.init.normal_(self.of_class.weight, std=0.3)
        for parameter in (self.of_operator.weight, self.factor.weight, self.factor.bias, self.launch.weight):
            nn.init.zeros_(parameter)
        self.register_buffer("centre", torch.zeros(FEATURES))
        self.register_buffer("scale", torch.ones(FEATURES))

    def vectors(self, x: _Inputs) -> Tensor:
        """(U, hidden + embedding) what the last layer sees of each operator."""
        shape = ((x.shape - self.centre) / self.scale).clamp(-_FARTHEST, _FARTHEST)
        code = self.of_class(x.kind) + self.of_operator(x.operator)
        h = self.dropout(nn.functional.silu(self.into(torch.cat([shape, x.neighbours, code], dim=1))))
        h = self.dropout(nn.functional.silu(self.hidden(h)))
        return torch.cat([h, code], dim=1)

    def log_factors(self, vectors: Tensor) -> Tensor:
        """(U, M) log of seconds over the roofline's."""
        factor: Tensor = _LARGEST_FACTOR * torch.tanh(self.factor(vectors) / _LARGEST_FACTOR)
        return factor

    def log_launch(self) -> Tensor:
        """(O, M) log seconds of a launch of each operator of the vocabulary."""
        return self.launch.weight.clamp(-_LARGEST_LAUNCH, _LARGEST_LAUNCH) + math.log(LAUNCH)

    def forward(self, x: _Inputs, batch: Tensor) -> Tensor:
        """(n, M) log seconds of a step of `batch` (n, M) samples."""
        seconds = x.roofline * self.log_factors(self.vectors(x)).exp() + x.waiting
        samples = torch.where(x.once[:, None], 1.0, batch[x.row])
        work = torch.zeros_like(batch).index_add(0, x.row, samples * seconds[x.column] * x.count[:, None])
        launches = x.launches @ self.log_launch().exp()
        total: Tensor = (work + launches).clamp_min(_SHORTEST).log()
        return total


@one_thread()
def train_member(
    settings: TimingSettings,
    operators: DistinctOperators,
    accelerators: Sequence[Accelerator],
    steps: MeasuredSteps,
    seed: Sequence[int],
    advance: Callable[[], Any],
) -> Weights:
    """Weights of one network after training; row r of `operators.counts` is task r of `steps`."""
    known = torch.from_numpy(np.isfinite(steps.seconds).T)
    target = torch.from_numpy(np.log(np.where(known.numpy().T, steps.seconds, 1.0)).T).float()
    batch = torch.from_numpy(np.nan_to_num(steps.batch, nan=1.0).T).float()
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**31)))
        network = _started(settings, operators, accelerators, batch, target, known)
        count = len(steps.graph)
        rounds = -(-count // settings.tasks)
        total = rounds * settings.epochs
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, 10 * (step + 1) / total) * 0.5 * (1 + math.cos(math.pi * step / total))
        )
        for _ in range(settings.epochs):
            for chosen in np.array_split(rng.permutation(count), rounds):
                predicted = network(_inputs(operators.take(chosen), accelerators), batch[chosen])
                error = (predicted - target[chosen])[known[chosen]]
                loss = nn.functional.huber_loss(error, torch.zeros_like(error), delta=settings.huber)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                schedule.step()
            advance()
    return {name: value.detach().numpy().copy() for name, value in network.state_dict().items()}


@one_thread()
def apply_member(
    settings: TimingSettings,
    weights: Weights,
    operators: DistinctOperators,
    accelerators: Sequence[Accelerator],
    batch: Floats,
) -> Floats:
    """(M, n) log seconds of steps of `batch` (M, n) samples; each graph's depend on that graph only."""
    network = _loaded(settings, weights, len(accelerators))
    with torch.no_grad():
        samples = torch.from_numpy(batch.T.copy()).float()
        result: Floats = network(_inputs(operators, accelerators), samples).numpy().T.astype(np.float64)
    return result


@one_thread()
def look_into_member(
    settings: TimingSettings, weights: Weights, operators: DistinctOperators, accelerators: Sequence[Accelerator]
) -> tuple[Floats, Floats, Floats]:
    """(U, hidden + embedding) vectors of operators, their (U, M) log factors, and (U, M) log seconds of a launch."""
    network = _loaded(settings, weights, len(accelerators))
    with torch.no_grad():
        vectors = network.vectors(_inputs(operators, accelerators))
        parts = vectors, network.log_factors(vectors), network.log_launch()[torch.from_numpy(operators.operator)]
    vector, factor, launch = (part.numpy().astype(np.float64) for part in parts)
    return vector, factor, launch


def _loaded(settings: TimingSettings, weights: Weights, clusters: int) -> OperatorTimesNetwork:
    network = OperatorTimesNetwork(settings, clusters)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return network.eval()


def _started(
    settings: TimingSettings,
    operators: DistinctOperators,
    accelerators: Sequence[Accelerator],
    batch: Tensor,
    target: Tensor,
    known: Tensor,
) -> OperatorTimesNetwork:
    """A network in the units of its training operators that predicts rooflines times each cluster's median factor.

    Where most of a step is launches, a factor of the work cannot say so, and training does not find the way from there:
    such clusters start at the factor and the seconds of a launch that fit their steps best.
    """
    network = OperatorTimesNetwork(settings, len(accelerators))
    inputs = _inputs(operators, accelerators)
    scale = inputs.shape.std(dim=0, unbiased=False)
    network.centre.copy_(inputs.shape.mean(dim=0))
    network.scale.copy_(torch.where(scale > 1e-6, scale, torch.ones_like(scale)))
    with torch.no_grad():
        gap = target - network(inputs, batch)
        middle = torch.where(known, gap, torch.nan).nanmedian(dim=0).values
        for i, accelerator in enumerate(accelerators):
            rows = known[:, i].numpy()
            parts = _work_and_launches(operators, accelerator, batch[:, i].numpy())[rows]
            waiting = waiting_seconds(operators, accelerator, batch[:, i].double().numpy())[rows]
            found = fit_factors(parts, target[:, i].double().exp().numpy()[rows], _START, np.ones(2), waiting)
            share = parts[:, 1] * np.exp(found[1]) / (parts @ np.exp(found) + waiting)
            if np.median(share) > _LAUNCH_BOUND:
                middle[i] = found[0]
                network.launch.weight[:, i] = min(float(found[1]) - math.log(LAUNCH), 0.9 * _LARGEST_LAUNCH)
        network.factor.bias.copy_(middle.clamp(-_LARGEST_FACTOR / 2, _LARGEST_FACTOR / 2))
    return network


def _work_and_launches(operators: DistinctOperators, accelerator: Accelerator, batch: Floats) -> Floats:
    """(n, 2) roofline seconds of a step of `batch` (n,) samples, and how many operators it launches."""
    work = operators.of_steps(roofline_seconds(operators, [accelerator]), batch)[:, 0]
    parts: Floats = np.maximum(np.column_stack([work, operators.counts.sum(axis=1)]), _SHORTEST)
    return parts


def _inputs(operators: DistinctOperators, accelerators: Sequence[Accelerator]) -> _Inputs:
    counts = operators.counts.tocoo()
    per_operator = np.zeros((counts.shape[0], len(OPERATORS)))
    np.add.at(per_operator, (counts.row, operators.operator[counts.col]), counts.data)

    def real(values: Floats) -> Tensor:
        return torch.from_numpy(np.asarray(values)).float()

    return _Inputs(
        shape=real(operators.shape),
        neighbours=real(operators.neighbours),
        operator=torch.from_numpy(operators.operator),
        kind=torch.from_numpy(operators.kind),
        roofline=real(roofline_seconds(operators, accelerators)),
        row=torch.from_numpy(counts.row.astype(np.int64)),
        column=torch.from_numpy(counts.col.astype(np.int64)),
        count=real(counts.data),
        once=torch.from_numpy(operators.once[counts.col]),
        launches=real(per_operator),
        waiting=real(load_seconds(operators, accelerators)),
    )
