"""One network of operator times: its seed decides, and parts of operators make up its time."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from graphs_by_hand import join, tables

from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings
from mfcp.tasks.timing.operator_times import OperatorTimes
from mfcp.tasks.timing.roofline import Accelerator, graph_roofline, roofline_seconds

MACHINES = (Accelerator(1e12, 1e11, 4.0, 8.0), Accelerator(5e12, 2e11, 2.0, 64.0))
QUICK = TimingSettings(epochs=25, tasks=16, members=1, dropout=0.0)


def models(count, seed=0):
    """Chains of products and activations of random length and size."""
    rng = np.random.default_rng(seed)
    parts = []
    for g in range(count):
        n = int(rng.integers(3, 20))
        operators = rng.choice(["mm", "relu", "add"], n).tolist()
        nodes, edges = tables(operators, [(i, i + 1) for i in range(n - 1)], f"g{g:03d}")
        size = 10 ** rng.uniform(3, 6, n)
        amounts = {name: nodes[name] * size for name in ("bytes_read", "bytes_written", "output_numel")}
        parts.append((nodes.assign(flops=nodes["flops"] / 1e5 * size, **amounts), edges))
    return join(*parts)


pytestmark = pytest.mark.xdist_group("timing")  # one worker makes what they share


@pytest.fixture(scope="module")
def graphs():
    return build_graphs(*models(96))


def truth(graphs, seed=0):
    """Twice and five times the roofline."""
    batch = np.random.default_rng(seed).choice([4.0, 8.0, 64.0], (2, len(graphs.graph_id)))
    roofline = graph_roofline(graphs.distinct, MACHINES, batch)
    return MeasuredSteps(np.arange(len(graphs.graph_id)), batch, np.exp(roofline) * np.array([[2.0], [5.0]]))


@pytest.fixture(scope="module")
def fitted(graphs):
    steps = truth(graphs).select(np.arange(72))
    steps.seconds[0, :30] = np.nan
    return OperatorTimes.fit(graphs, MACHINES, steps, seed=0, settings=QUICK)


def test_the_seed_decides_and_the_callers_random_state_is_left_alone(graphs, fitted):
    steps = truth(graphs).select(np.arange(72))
    settings = QUICK.model_copy(update={"epochs": 2})
    before = torch.get_rng_state()
    one, two, other = (OperatorTimes.fit(graphs, MACHINES, steps, seed=s, settings=settings) for s in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(np.array_equal(one.members[0][k], two.members[0][k]) for k in one.members[0])
    assert not np.array_equal(one.members[0]["into.weight"], other.members[0]["into.weight"])


def test_what_runs_once_takes_as_long_at_any_batch(graphs, fitted):
    """A model's predicted seconds grow with the batch by those of what it repeats."""
    nodes, edges = tables(["mm", "relu", "mm"], [(0, 2), (1, 2)])
    steps = np.array([[1.0, 2.0, 4.0]] * len(MACHINES))
    network = replace(fitted, rooflines=())

    def seconds(once):
        parts = [(nodes.assign(graph_id=f"g{i}", once=once), edges.assign(graph_id=f"g{i}")) for i in range(3)]
        return np.exp(network.log_seconds(build_graphs(*join(*parts)).distinct, steps))

    assert np.ptp(seconds([1, 1, 1]), axis=1) == pytest.approx(0.0, abs=1e-12)
    grown = np.diff(seconds([1, 0, 0]), axis=1)
    assert grown[:, 1] == pytest.approx(2 * grown[:, 0], rel=1e-3)
    assert (grown > 0).all()


def test_parts_of_operators_make_up_the_networks_time(graphs, fitted):
    steps = truth(graphs)
    vectors, factors, launches = fitted.operator_parts(graphs.distinct)
    seconds = roofline_seconds(graphs.distinct, MACHINES) * np.exp(factors)
    total = steps.batch.T * (graphs.distinct.counts @ seconds) + graphs.distinct.counts @ np.exp(launches)
    network = replace(fitted, rooflines=())
    assert np.log(total.T) == pytest.approx(network.log_seconds(graphs.distinct, steps.batch), abs=1e-4)
    assert vectors.shape == (len(graphs.distinct.kind), QUICK.hidden + QUICK.embedding)
