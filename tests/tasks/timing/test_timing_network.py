"""One network of operator times: its seed decides, and parts of operators make up its time."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from graphs_by_hand import interpolating, join, tables
from timed_graphs import MACHINES, QUICK, truth

from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.timing.measured_steps import MeasuredSteps
from mfcp.tasks.timing.operator_times import OperatorTimes
from mfcp.tasks.timing.roofline import LOAD, Accelerator, roofline_seconds

pytestmark = pytest.mark.xdist_group("timing")  # one worker makes what they share


def test_the_seed_decides_and_the_callers_random_state_is_left_alone(graphs, fitted):
    steps = truth(graphs).select(np.arange(72))
    settings = QUICK.model_copy(update={"epochs": 2})
    before = torch.get_rng_state()
    one, two, other = (OperatorTimes.fit(graphs, MACHINES, steps, seed=s, settings=settings) for s in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(np.array_equal(one.members[0][k], two.members[0][k]) for k in one.members[0])
    assert not np.array_equal(one.members[0]["into.weight"], other.members[0]["into.weight"])


def test_channels_in_turn_add_their_loads_whatever_was_learned(fitted):
    """The same model, had it been compiled for, and a step of 2 samples that interpolates 3 times."""
    operators, batch = build_graphs(*interpolating(1024, 3)).distinct, np.full((len(MACHINES), 1), 2.0)
    network = replace(fitted, rooflines=())
    compiled = replace(network, accelerators=tuple(replace(a, compiled=True) for a in network.accelerators))
    seconds, without = (np.exp(own.log_seconds(operators, batch)) for own in (network, compiled))
    assert seconds - without == pytest.approx(np.full_like(seconds, 2 * 3 * 1024 * LOAD), rel=1e-3)


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


def test_where_launches_are_most_of_a_step_its_time_does_not_grow_with_the_batch(graphs):
    """As on GPUs that wait for their host: small models at two batches, the one eight times the other."""
    rng, launch = np.random.default_rng(0), np.array([[5e-6], [4e-4], [5e-6]])
    batch = rng.choice([8.0, 64.0], (3, len(graphs.graph_id)))
    fast = (Accelerator(1e15, 3e12, 4.0, 8.0),) * 3
    roofline = roofline_seconds(graphs.distinct, fast[:1])
    work = 2.0 * np.stack([graphs.distinct.of_steps(roofline, b)[:, 0] for b in batch])
    launches = launch * graphs.distinct.counts.sum(axis=1)
    seconds, unseen = work + launches, np.arange(72, 96)
    known = np.where(rng.uniform(size=batch.shape) < 0.1, np.nan, seconds)
    steps = MeasuredSteps(np.arange(batch.shape[1]), np.where(np.isnan(known), np.nan, batch), known)
    settings = QUICK.model_copy(update={"roofline_share": 0.0})
    fitted = OperatorTimes.fit(graphs, fast, steps.select(np.arange(72)), seed=0, settings=settings)
    predicted = fitted.log_seconds(graphs.distinct.take(unseen), batch[:, unseen])
    assert (np.abs(predicted - np.log(seconds[:, unseen])).mean(axis=1) < 0.1).all()
    eight, larger = (np.exp(fitted.log_seconds(graphs.distinct, np.full(batch.shape, b))) for b in (8.0, 64.0))
    true = (launches + 64.0 * work / batch) / (launches + 8.0 * work / batch)
    assert np.median(larger / eight, axis=1) == pytest.approx(np.median(true, axis=1), rel=0.1)
