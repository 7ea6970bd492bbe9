"""Peak memory: parts by hand, factors that are known, and a risk that is a frequency."""

import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import tables

from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.memory import MemoryRisk, PeakMemory, TrainingRuns

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
    """Bytes by a loop over operators."""
    base, weight, state, *classes, largest = factors
    own = np.flatnonzero(found.graph == run.graph[0])
    W = 4 * sum(found.params[v] for v in own)
    total = base * 1e8 + weight * W + state * run.states[0] * W
    for v in own:
        total += classes[found.kind[v]] * 4 * found.numel[v] * (1 if found.once[v] else run.batch[0])
    return total + largest * 4 * run.batch[0] * max(found.numel[v] for v in own if not found.once[v])


def runs(found, seed=0):
    rng = np.random.default_rng(seed)
    G = len(found.graph_id)
    return TrainingRuns(np.arange(G).repeat(3), np.tile([2.0, 8.0, 24.0], G), rng.choice([1.0, 2.0], G).repeat(3))


FACTORS = np.array([4.0, 2.5, 1.2, *np.linspace(0.5, 1.5, len(CLASS_NAMES)), 2.0])


def test_a_prediction_is_the_sum_of_the_parts():
    found = graphs()
    asked = runs(found)
    told = PeakMemory(np.log(FACTORS)).predict(found, asked)
    for i in range(0, len(asked), 7):
        assert told[i] == pytest.approx(plainly(found, asked.take(np.array([i])), FACTORS))


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
