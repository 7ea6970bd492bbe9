"""Scaling by operator: by a loop over operators, and what must hold whatever the operators."""

from dataclasses import replace

import numpy as np
import pytest
from graphs_by_hand import interpolating, tables

from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.timing.roofline import Accelerator, FittedRoofline
from mfcp.tasks.timing.wave_scaling import wave_scaled

KNOWN = Accelerator(peak=1e9, bandwidth=10.0, batch=2.0)
FITTED = FittedRoofline(KNOWN, np.log(np.r_[np.linspace(0.5, 2, len(CLASS_NAMES)), np.full(len(CLASS_NAMES), 0.01)]))
GRAPHS = build_graphs(*tables(["mm", "relu", "mm", "add"], [(0, 1), (1, 2), (2, 3)]))
ONE, BATCH = np.array([3.0]), np.array([4.0])


def test_each_operator_is_scaled_by_its_intensity():
    target = Accelerator(peak=3e9, bandwidth=15.0, batch=2.0)
    d, before, after = GRAPHS.distinct, 0.0, 0.0
    for u in range(len(d.kind)):
        moved = d.traffic[u] + 4 * d.params[u] / 2
        seconds = max(d.flops[u] / 1e9, moved / 10) * np.exp(FITTED.coefficients[d.kind[u]])
        x, ridge = d.flops[u] / moved, 3e9 / 15
        gamma = 1 - x / (2 * ridge) if x < ridge else ridge / (2 * x)
        count = d.counts.toarray()[0, u]
        before += count * (4 * seconds + 0.01)
        after += count * (4 * seconds * (10 / 15) ** gamma * (1 / 3) ** (1 - gamma) + 0.01)
    assert np.exp(wave_scaled(d, FITTED, BATCH, ONE, target)) == pytest.approx(3 * after / before)


def test_equal_figures_change_nothing_and_better_ones_never_slow_down():
    assert np.exp(wave_scaled(GRAPHS.distinct, FITTED, BATCH, ONE, KNOWN)) == pytest.approx(3.0)
    for peak, bandwidth in ((1e10, 10.0), (1e9, 100.0), (1e10, 100.0)):
        target = Accelerator(peak, bandwidth, batch=2.0)
        assert np.exp(wave_scaled(GRAPHS.distinct, FITTED, BATCH, ONE, target))[0] < 3.0


def test_what_waits_for_memory_waits_as_long_on_another_device():
    """Nearly all of a step; on a compiled one nothing waits."""
    operators = build_graphs(*interpolating(1024, 50)).distinct
    figures = {"peak": 1e13, "bandwidth": 1e12}
    fitted = FittedRoofline(Accelerator(**figures), np.full(2 * len(CLASS_NAMES), np.log(1e-9)))
    target = Accelerator(peak=1e15, bandwidth=1e14)
    assert np.exp(wave_scaled(operators, fitted, BATCH, ONE, target)) == pytest.approx(3.0, rel=1e-3)
    assert np.exp(wave_scaled(operators, fitted, BATCH, ONE, replace(target, compiled=True))) < 1e-3


def test_a_task_that_never_ran_there_has_no_time_and_wrong_ones_are_refused():
    assert np.isnan(wave_scaled(GRAPHS.distinct, FITTED, np.array([np.nan]), np.array([np.nan]), KNOWN)).all()
    with pytest.raises(DataError, match="seconds"):
        wave_scaled(GRAPHS.distinct, FITTED, BATCH, -ONE, KNOWN)
    with pytest.raises(DataError, match="batches"):
        wave_scaled(GRAPHS.distinct, FITTED, np.ones(2), ONE, KNOWN)
