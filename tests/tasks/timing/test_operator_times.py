"""The network from graphs to times: what it must learn, what it must not depend on, and its file."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import tables
from timed_graphs import MACHINES, QUICK, memory_bound, models, truth

from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES, OPERATORS
from mfcp.tasks.timing.measured_steps import MeasuredSteps
from mfcp.tasks.timing.operator_times import OperatorTimes, fit_rooflines
from mfcp.tasks.timing.roofline import Accelerator, class_parts

pytestmark = pytest.mark.xdist_group("timing")  # one worker makes what they share


def test_unseen_graphs_have_the_times_of_their_machines(graphs, fitted):
    steps, unseen = truth(graphs), np.arange(72, 96)
    predicted = fitted.log_seconds(graphs.distinct.take(unseen), steps.batch[:, unseen])
    assert np.abs(predicted - np.log(steps.seconds[:, unseen])).mean() < 0.1


def test_a_graphs_times_do_not_depend_on_its_company_or_the_order_of_nodes(graphs, fitted):
    nodes, edges = models(96)
    everything = fitted.log_seconds(graphs.distinct)
    rng = np.random.default_rng(1)
    own_nodes, own_edges = (table[table["graph_id"] == "g017"] for table in (nodes, edges))
    renumbered = dict(enumerate(rng.permutation(len(own_nodes)) + 5))
    other = build_graphs(
        own_nodes.assign(node_id=own_nodes["node_id"].map(renumbered)).sample(frac=1, random_state=0),
        own_edges.assign(src=own_edges["src"].map(renumbered), dst=own_edges["dst"].map(renumbered)),
    )
    assert fitted.log_seconds(other.distinct)[:, 0] == pytest.approx(everything[:, 17], abs=1e-4)


def test_several_members_predict_their_mean_log_time(graphs):
    steps, settings = truth(graphs), QUICK.model_copy(update={"epochs": 1, "members": 2})
    both = OperatorTimes.fit(graphs, MACHINES, steps, seed=0, settings=settings)
    each = [replace(both, members=(weights,)).log_seconds(graphs.distinct) for weights in both.members]
    assert both.log_seconds(graphs.distinct) == pytest.approx(np.mean(each, axis=0))
    assert not np.allclose(*each)


def test_parts_of_several_members_lie_side_by_side(graphs, fitted):
    one, two = fitted, replace(fitted, members=fitted.members * 2)
    (v1, f1, l1), (v2, f2, l2) = (times.operator_parts(graphs.distinct) for times in (one, two))
    assert v2 @ v2.T == pytest.approx(v1 @ v1.T)
    assert np.array_equal(f1, f2)
    assert np.array_equal(l1, l2)


def test_a_machine_that_fuses_arithmetic_is_told_from_its_times():
    """Products take what they should on all; arithmetic a fifth of what memory allows on the second one."""
    operators = build_graphs(*memory_bound(60)).distinct
    machines, batch = (Accelerator(1e12, 1e11), Accelerator(1e12, 1e11)), np.full(60, 8.0)
    work = class_parts(operators, 1e12, 1e11, 4.0, batch)[:, : len(CLASS_NAMES)]
    fused = np.where(np.arange(len(CLASS_NAMES)) == CLASS_NAMES.index("arithmetic"), 0.2, 1.0)
    steps = MeasuredSteps(np.arange(60), np.stack([batch] * 2), np.stack([2 * work.sum(axis=1), work @ fused]))
    assert [own.accelerator.compiled for own in fit_rooflines(operators, machines, steps)] == [False, True]
    few = np.arange(10)
    rooflines = fit_rooflines(operators.take(few), machines, steps.select(few))
    assert not any(own.accelerator.compiled for own in rooflines)


def test_what_is_saved_is_loaded(graphs, fitted, tmp_path):
    fitted.save(tmp_path / "times.safetensors")
    loaded = OperatorTimes.load(tmp_path / "times.safetensors")
    assert (loaded.settings, loaded.accelerators) == (fitted.settings, fitted.accelerators)
    assert np.array_equal(loaded.log_seconds(graphs.distinct), fitted.log_seconds(graphs.distinct))
    (tmp_path / "other.safetensors").write_bytes(b"no such thing")
    with pytest.raises(DataError, match=r"other\.safetensors: no operator times"):
        OperatorTimes.load(tmp_path / "other.safetensors")


def test_a_file_of_other_features_is_refused(fitted, tmp_path, monkeypatch):
    from mfcp.tasks.timing import operator_times

    monkeypatch.setattr(operator_times, "FEATURES", 15)
    fitted.save(tmp_path / "times.safetensors")
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"times\.safetensors: made for other features of operators; fit it again"):
        OperatorTimes.load(tmp_path / "times.safetensors")


def test_a_file_outlives_operators_that_become_known(graphs, fitted, tmp_path, monkeypatch):
    """Codes of operators are positions in a list that grows; a file goes by their names."""
    from mfcp.tasks.timing import operator_times

    monkeypatch.setattr(operator_times, "OPERATORS", ("other", "an_older_one", *OPERATORS[1:]))
    older = {
        name: np.insert(values, 1, 7.0, axis=0) if name in {"of_operator.weight", "launch.weight"} else values
        for name, values in fitted.members[0].items()
    }
    replace(fitted, members=(older,)).save(tmp_path / "times.safetensors")
    monkeypatch.undo()
    loaded = OperatorTimes.load(tmp_path / "times.safetensors")
    assert np.array_equal(loaded.log_seconds(graphs.distinct), fitted.log_seconds(graphs.distinct))


def test_a_cluster_without_any_time_is_refused(graphs):
    steps = truth(graphs)
    steps.seconds[1] = np.nan
    with pytest.raises(DataError, match="cluster 1: none of 96 training tasks has a time"):
        OperatorTimes.fit(graphs, MACHINES, steps, seed=0, settings=QUICK)


def test_unknown_operators_no_flops_and_20_000_nodes(fitted):
    n = 20_000
    nodes, edges = tables(["never_heard_of"] * n, [(i, i + 1) for i in range(n - 1)])
    graphs = build_graphs(nodes, edges)
    assert graphs.unknown == {"never_heard_of": n}
    assert np.isfinite(fitted.log_seconds(graphs.distinct)).all()


def test_an_empty_graph_table_has_no_distinct_operators():
    nodes, edges = tables(["mm"], [])
    graphs = build_graphs(nodes.iloc[:0], pd.DataFrame(edges).iloc[:0])
    assert graphs.distinct.counts.shape == (0, 0)
