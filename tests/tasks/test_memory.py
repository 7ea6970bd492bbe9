"""Peak memory: parts by hand, factors that are known, and a risk that is a frequency."""

import numpy as np
import pandas as pd
import pytest
import torch
from graphs_by_hand import tables

from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.graphs.operators import OPERATORS as OPERATORS_OF
from mfcp.tasks.memory import _NEEDS_INPUTS, _NEEDS_OUTPUT, MemoryRisk, PeakMemory, TrainingRuns, _Parts

fn = torch.nn.functional
W, B = torch.rand(6, 6, requires_grad=True), torch.rand(6, requires_grad=True)
OPERATORS = ("mm", "relu", "softmax", "add")


def graphs(count=30, seed=0):
    """Of random operators and sizes."""
    rng = np.random.default_rng(seed)
    nodes, edges = [], []
    for g in range(count):
        chosen = rng.choice(OPERATORS, rng.integers(2, 9)).tolist()
        own, links = tables(chosen, [(i, i + 1) for i in range(len(chosen) - 1)])
        size = np.exp(rng.normal(13, 1.0, len(own))).round()
        own = own.assign(graph_id=f"g{g:02}", output_numel=size, param_count=own["param_count"] * 1e6)
        nodes.append(own)
        edges.append(links.assign(graph_id=f"g{g:02}"))
    return build_graphs(pd.concat(nodes, ignore_index=True), pd.concat(edges, ignore_index=True))


def plainly(found, run, factors):
    """Bytes by a loop over operators, of which products read what they need and relu and softmax write it."""
    base, weight, state, at_backward, *classes, other, largest = factors
    own = np.flatnonzero(found.graph == run.graph[0])
    W = 4 * sum(found.params[v] for v in own)
    beginning = at_backward * W + run.states[0] * W
    for v in own:
        readers = [OPERATORS_OF[found.operator[w]] for u, w in found.edges.T if u == v]
        kept = "mm" in readers or OPERATORS_OF[found.operator[v]] in ("relu", "softmax")
        factor = classes[found.kind[v]] if kept else other
        beginning += factor * 4 * found.numel[v] * (1 if found.once[v] else run.batch[0])
    beginning += largest * 4 * run.batch[0] * max(found.numel[v] for v in own if not found.once[v])
    stepping = weight * W + state * run.states[0] * W
    return base * 1e8 + (stepping**10 + beginning**10) ** 0.1


def runs(found, seed=0):
    rng = np.random.default_rng(seed)
    G = len(found.graph_id)
    return TrainingRuns(np.arange(G).repeat(3), np.tile([2.0, 8.0, 24.0], G), rng.choice([1.0, 2.0], G).repeat(3))


FACTORS = np.array([4.0, 2.5, 1.2, 1.1, *np.linspace(0.5, 1.5, len(CLASS_NAMES)), 0.2, 2.0])


def test_a_prediction_is_the_larger_of_two_moments():
    found = graphs()
    asked = runs(found)
    told = PeakMemory(np.log(FACTORS)).predict(found, asked)
    for i in range(0, len(asked), 7):
        assert told[i] == pytest.approx(plainly(found, asked.take(np.array([i])), FACTORS))


def test_what_is_fitted_by_has_the_slopes_of_what_is_predicted():
    found = graphs(5)
    parts, x = _Parts.of(found, runs(found)), np.log(FACTORS)
    step = 1e-6 * np.eye(len(x))
    slopes = [(np.log(parts.peak(x + own)) - np.log(parts.peak(x - own))) / 2e-6 for own in step]
    assert parts.log_slopes(x) == pytest.approx(np.array(slopes).T, abs=1e-7)
    nothing = _Parts(np.full(1, 1e-9), np.full(1, 1e-9), np.full((1, len(x) - 4), 1e-9))
    assert nothing.log_slopes(x)[0] == pytest.approx(np.eye(len(x))[0])  # the base is all there is
    assert parts.peak(np.where(np.arange(len(x)) == 1, -np.inf, x)).min() > 0  # a moment that never is the larger


ONE = {
    "relu": torch.relu, "gelu": fn.gelu, "silu": fn.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "hardswish": fn.hardswish, "hardsigmoid": fn.hardsigmoid, "leaky_relu": fn.leaky_relu, "mish": fn.mish,
    "softplus": fn.softplus, "glu": fn.glu, "threshold": lambda x: fn.threshold(x, 0.1, 0.0), "neg": torch.neg,
    "clamp": lambda x: x.clamp(0, 1), "pow": lambda x: x**2, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp,
    "log": torch.log, "sin": torch.sin, "cos": torch.cos, "abs": torch.abs, "reciprocal": torch.reciprocal,
    "_softmax": lambda x: x.softmax(-1), "_log_softmax": lambda x: x.log_softmax(-1), "mean": torch.mean,
    "sum": torch.sum,
    "var": torch.var, "amax": lambda x: x.amax(-1), "prod": torch.prod, "cumsum": lambda x: x.cumsum(0),
    "linalg_vector_norm": torch.linalg.vector_norm, "addmm": lambda x: fn.linear(x, W, B), "add": lambda x: x + 1.0,
    "mul": lambda x: x * W, "div": lambda x: x / W, "sub": lambda x: x - W, "mm": lambda x: x @ W, "elu": fn.elu,
    "maximum": lambda x: torch.maximum(x, W), "minimum": lambda x: torch.minimum(x, W), "clone": torch.clone,
    "native_layer_norm": lambda x: fn.layer_norm(x, (6,), B, B), "cat": lambda x: torch.cat([x, x]),
    "native_batch_norm": lambda x: fn.batch_norm(x, None, None, B, B, training=True), "roll": lambda x: x.roll(1),
    "native_group_norm": lambda x: fn.group_norm(x, 2, B, B), "constant_pad_nd": lambda x: fn.pad(x, (1, 1)),
    "convolution": lambda x: fn.conv1d(x[None], W[..., None]), "avg_pool2d": lambda x: fn.avg_pool2d(x[None], 2),
    "max_pool2d_with_indices": lambda x: fn.max_pool2d(x[None], 2), "mse_loss": lambda x: fn.mse_loss(x, W),
    "bmm": lambda x: torch.bmm(x[None], W[None]), "hardtanh": fn.hardtanh, "prelu": lambda x: fn.prelu(x, B[:1]),
    "binary_cross_entropy_with_logits": lambda x: fn.binary_cross_entropy_with_logits(x, W),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_what_an_operator_needs_is_what_pytorch_keeps_for_it(name):
    x = torch.rand(6, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.data_ptr()), lambda none: none):
        y = ONE[name](x)
    assert name in OPERATORS_OF
    assert (x.data_ptr() in kept) == (name in _NEEDS_INPUTS)
    if name not in (
        "hardtanh",
        "max_pool2d_with_indices",
    ):  # in place, as in MobileNet; indices, as large as the output
        assert (y.data_ptr() in kept) == (name in _NEEDS_OUTPUT)


def test_unseen_graphs_are_predicted_from_others():
    found = graphs(60)
    asked = runs(found)
    truth = PeakMemory(np.log(FACTORS)).predict(found, asked)
    train = asked.graph < 40
    noise = np.exp(0.03 * np.random.default_rng(1).standard_normal(len(truth)))
    fitted = PeakMemory.fit(found, asked.take(train), (truth * noise)[train])
    error = np.abs(fitted.predict(found, asked.take(~train)) / truth[~train] - 1)
    assert error.mean() < 0.05


def test_risk_is_how_often_runs_of_such_a_margin_failed():
    rng = np.random.default_rng(0)
    predicted, limit = np.exp(rng.uniform(-1, 1, 4000)) * 1e9, np.full(4000, 1e9)
    failed = np.log(predicted / limit) + 0.15 * rng.standard_normal(4000) > 0.1
    risk = MemoryRisk.fit(predicted, limit, failed)
    assert risk.shift == pytest.approx(0.1, abs=0.03)
    assert risk.sd == pytest.approx(0.15, abs=0.03)
    told = risk.risk(predicted, limit)
    for low, high in ((0.0, 0.2), (0.3, 0.7), (0.8, 1.0)):
        own = (told >= low) & (told <= high)
        assert failed[own].mean() == pytest.approx(told[own].mean(), abs=0.08)


def test_few_runs_with_a_limit_leave_the_usual_miss():
    risk = MemoryRisk.fit(np.array([2e9, 1e8]), np.full(2, 1e9), np.array([True, False]))
    assert risk.shift == pytest.approx(0.0, abs=0.03)
    assert risk.sd == pytest.approx(0.1, abs=0.03)


def test_wrong_numbers_are_named():
    found = graphs(3)
    asked = runs(found)
    with pytest.raises(DataError, match="9 runs need"):
        PeakMemory.fit(found, asked, np.zeros(9))
    with pytest.raises(DataError, match="batches"):
        PeakMemory(np.log(FACTORS)).predict(found, TrainingRuns(asked.graph, -asked.batch, asked.states))
    with pytest.raises(DataError, match="limits"):
        MemoryRisk(0.0, 0.1).risk(np.ones(1), np.zeros(1))


@pytest.mark.parametrize("once", [0, 1])
def test_one_run_of_one_operator_is_enough(once):
    nodes, edges = tables(["relu"], [])
    found = build_graphs(nodes.assign(once=[once]), edges)
    asked = TrainingRuns(np.array([0]), np.ones(1), np.zeros(1))
    fitted = PeakMemory.fit(found, asked, np.array([1e9]))
    assert fitted.predict(found, asked) == pytest.approx([1e9], rel=0.05)
