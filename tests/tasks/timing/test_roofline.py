"""Rooflines of graphs that can be counted by hand, distinct operators, and efficiencies that are known."""

from dataclasses import replace

import numpy as np
import pytest
from graphs_by_hand import BLOCK, interpolating, join, tables

from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES, OPERATORS
from mfcp.tasks.timing.roofline import (
    LOAD,
    Accelerator,
    class_parts,
    fit_roofline,
    graph_roofline,
    roofline_seconds,
)

SLOW = Accelerator(peak=1e9, bandwidth=10.0, element_bytes=4.0, batch=2.0)


def test_roofline_seconds_by_hand():
    """A product: 1e9 FLOPs at 1e9 a second against (12 + 4 · 2 / 2) bytes at 10 a second; others only the latter."""
    graphs = build_graphs(*BLOCK)
    seconds = roofline_seconds(graphs.distinct, [SLOW, Accelerator(1e8, 1e9)])
    assert sorted(seconds[:, 0]) == pytest.approx([1.6] * 4)
    assert sorted(seconds[:, 1]) == pytest.approx([2e-8, 2e-8, 10.0, 10.0])
    step = np.exp(graph_roofline(graphs.distinct, [SLOW], np.array([[5.0]])))
    assert step == pytest.approx(np.array([[5 * 4 * 1.6 + 4 * 5e-6]]))


def test_what_runs_once_counts_once():
    """Two products of each of 5 samples, and one of a step: 12 · .1 + 4 · 2 · .1 = 2 s against 1 s of products."""
    nodes, edges = tables(["mm", "mm", "mm"], [(1, 2)])
    graphs = build_graphs(nodes.assign(once=[1, 0, 0]), edges)
    once = graphs.distinct.once
    assert roofline_seconds(graphs.distinct, [SLOW])[:, 0] == pytest.approx(np.where(once, 2.0, 1.6))
    step = np.exp(graph_roofline(graphs.distinct, [SLOW], np.array([[5.0]])))
    assert step == pytest.approx(np.array([[2.0 + 5 * 2 * 1.6 + 3 * 5e-6]]))
    parts = class_parts(graphs.distinct, 1e9, 10.0, 4.0, np.array([5.0]))
    assert parts[0, CLASS_NAMES.index("matmul")] == pytest.approx(2.0 + 2 * (5 * 12 + 8) / 10)


def test_channels_in_turn_wait_for_memory_unless_models_are_compiled():
    """Two interpolations of 1,024 channels each, of 5 samples: 10,240 loads one after another."""
    operators = build_graphs(*interpolating(1024, 2)).distinct
    eager, compiled = Accelerator(1e9, 1e9), Accelerator(1e9, 1e9, compiled=True)
    batch = np.array([[5.0]])
    more = np.exp(graph_roofline(operators, [eager], batch)) - np.exp(graph_roofline(operators, [compiled], batch))
    assert more == pytest.approx(np.array([[10240 * LOAD]]))


def test_efficiencies_are_not_blamed_for_channels_in_turn():
    """Of graphs that interpolate up to four times, at 1/3 of the figures."""
    operators = build_graphs(
        *join(*(interpolating(51 * (1 + g % 7), 1 + g % 4, f"g{g:02d}") for g in range(28)))
    ).distinct
    machine, batch = Accelerator(1e10, 1e8), np.full(28, 8.0)
    work = np.exp(graph_roofline(operators, [Accelerator(1e10, 1e8, compiled=True)], batch[None]))[0]
    waiting = 8 * LOAD * (operators.counts @ operators.in_turn)
    fitted = fit_roofline(operators, machine, batch, 3 * work + waiting, prior_sd=100.0)
    assert fitted.log_seconds(operators, batch) == pytest.approx(np.log(3 * work + waiting), abs=0.02)
    unseen = build_graphs(*interpolating(2048, 9)).distinct
    expected = 3 * np.exp(graph_roofline(unseen, [replace(machine, compiled=True)], np.array([[8.0]])))[0]
    assert fitted.log_seconds(unseen, np.array([8.0])) == pytest.approx(
        np.log(expected + 8 * 9 * 2048 * LOAD), abs=0.05
    )


@pytest.mark.parametrize("figures", [{"peak": np.nan}, {"bandwidth": 0.0}, {"batch": -1.0}])
def test_figures_that_are_unknown_or_impossible_are_refused(figures):
    with pytest.raises(DataError, match=f"accelerator: {next(iter(figures))} is"):
        Accelerator(**{"peak": 1.0, "bandwidth": 1.0} | figures)


def test_half_precision_halves_activations_but_not_weights():
    graphs = build_graphs(*tables(["relu"], []))
    seconds = roofline_seconds(graphs.distinct, [Accelerator(1.0, 1.0, element_bytes=2.0)])
    assert seconds == pytest.approx(np.array([[6.0 + 8.0]]))


def test_unknown_operators_are_in_the_bucket_of_others():
    graphs = build_graphs(*tables(["never_heard_of", "relu"], [(0, 1)]))
    assert graphs.operator.tolist() == [0, OPERATORS.index("relu")]
    assert graphs.unknown == {"never_heard_of": 1}


def test_fitted_efficiencies_are_recovered():
    """Graphs of products and activations on a machine that multiplies at 1/3 and moves bytes at 1/2 of its figures."""
    rng = np.random.default_rng(0)
    parts = []
    for g in range(40):
        operators = rng.choice(["mm", "relu"], rng.integers(2, 12), p=[0.5, 0.5]).tolist()
        nodes, edges = tables(operators, [], f"g{g:02d}")
        size = 10 ** rng.uniform(6, 8, len(nodes))
        parts.append((nodes.assign(bytes_read=size, bytes_written=0.0, flops=nodes["flops"] * size / 1e3), edges))
    graphs = build_graphs(*join(*parts))
    machine = Accelerator(peak=1e12, bandwidth=1e11)
    batch = rng.integers(1, 64, 40).astype(float)
    work = graphs.distinct.by_class(roofline_seconds(graphs.distinct, [machine])[:, 0]) * batch[:, None]
    slow = np.ones(len(CLASS_NAMES))
    slow[[CLASS_NAMES.index("matmul"), CLASS_NAMES.index("activation")]] = 3.0, 2.0
    seconds = work @ slow
    fitted = fit_roofline(graphs.distinct, machine, batch, seconds, prior_sd=100.0)
    assert fitted.log_seconds(graphs.distinct, batch) == pytest.approx(np.log(seconds), abs=0.02)
    assert np.exp(fitted.coefficients[CLASS_NAMES.index("matmul")]) == pytest.approx(3.0, rel=0.05)
