"""Clusters with few runs or none: a synthetic truth is found, the prior is calibrated, files come back."""

from dataclasses import replace

import numpy as np
import pytest
from graphs_by_hand import interpolating, join, tables
from timed_graphs import memory_bound

from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings
from mfcp.tasks.timing.new_cluster import NewCluster
from mfcp.tasks.timing.operator_times import OperatorTimes
from mfcp.tasks.timing.roofline import LOAD, Accelerator, class_parts, graph_roofline, roofline_seconds

KNOWN = tuple(Accelerator(1e12 * f, 1e11 * f, 4.0, 8.0) for f in (1.0, 1.5, 2.0, 3.0))
NEW = Accelerator(2.5e12, 2.5e11, 4.0, 8.0)
FACTORS = np.array([2.0, 2.4, 1.8, 2.2])
MODELS = 80

pytestmark = pytest.mark.xdist_group("new_cluster")  # one worker makes what they share


@pytest.fixture(scope="module")
def graphs():
    rng = np.random.default_rng(0)
    parts = []
    for g in range(MODELS):
        n = int(rng.integers(3, 20))
        nodes, edges = tables(rng.choice(["mm", "relu"], n).tolist(), [(i, i + 1) for i in range(n - 1)], f"g{g:03d}")
        size = 10 ** rng.uniform(5, 8, n)
        parts.append((nodes.assign(flops=nodes["flops"] / 1e8 * size, bytes_read=size, bytes_written=size), edges))
    return build_graphs(*join(*parts))


def batches(clusters):
    return np.full((clusters, MODELS), 8.0)


@pytest.fixture(scope="module")
def known(graphs):
    """Clusters that are each a constant slower than their rooflines."""
    seconds = FACTORS[:, None] * np.exp(graph_roofline(graphs.distinct, KNOWN, batches(4)))
    steps = MeasuredSteps(np.arange(MODELS), batches(4), seconds)
    settings = TimingSettings(members=1, epochs=25, tasks=16, dropout=0.0)
    return OperatorTimes.fit(graphs, KNOWN, steps, seed=0, settings=settings)


def roofline(graphs):
    return graph_roofline(graphs.distinct, [NEW], batches(1))[0]


def fit(graphs, known, runs, log_seconds):
    own = graphs.distinct.take(np.arange(runs))
    return NewCluster.fit(NEW, known, own, np.full(runs, 8.0), np.exp(log_seconds[:runs]), graphs.distinct)


def test_channels_in_turn_are_told_of_a_cluster_that_nobody_has_run_on(known):
    """Waiting is most of the step, on each known cluster and on the new one."""
    operators = build_graphs(*interpolating(4096, 50)).distinct
    reference = operators.take(np.zeros(2, np.int64))
    new = NewCluster.fit(NEW, known, operators.take(np.zeros(0, np.int64)), np.zeros(0), np.zeros(0), reference)
    told = new.predict(known, operators, np.array([8.0])).log_seconds
    assert np.exp(told) == pytest.approx(8 * 50 * 4096 * LOAD, rel=0.1)


def test_runs_tell_that_models_are_compiled_and_it_is_kept(graphs, known, tmp_path):
    """Sums take a fifth of what memory needs."""
    own = build_graphs(*memory_bound(60)).distinct
    batch = np.full(own.counts.shape[0], 8.0)
    parts = class_parts(own, NEW.peak, NEW.bandwidth, NEW.element_bytes, batch)[:, : len(CLASS_NAMES)]
    seconds = parts @ np.where(np.array(CLASS_NAMES) == "arithmetic", 0.2, 1.0)
    new = NewCluster.fit(NEW, known, own, batch, seconds, graphs.distinct)
    assert new.accelerator.compiled
    new.save(tmp_path / "new.safetensors")
    assert NewCluster.load(tmp_path / "new.safetensors").accelerator == new.accelerator


def test_without_runs_the_prior_is_the_roofline_times_what_similar_clusters_need(graphs, known):
    predicted = fit(graphs, known, 0, roofline(graphs)).predict(known, graphs.distinct, np.full(MODELS, 8.0))
    assert predicted.runs == 0
    assert predicted.log_seconds - roofline(graphs) == pytest.approx(np.log(2.1), abs=0.15)
    assert predicted.sd == pytest.approx(predicted.sd[0])
    assert 0.05 < predicted.sd[0] < 0.4  # factors between 1.8 and 2.4 are some 0.13 apart


def test_the_prior_covers_clusters_like_the_known_ones(graphs, known):
    """Levels of new clusters drawn with the spread that is claimed lie in the 90 % interval about that often."""
    fitted = fit(graphs, known, 0, roofline(graphs))
    predicted = fitted.predict(known, graphs.distinct, np.full(MODELS, 8.0))
    drawn = np.random.default_rng(1).normal(np.log(FACTORS).mean(), 0.3, 400)
    off = roofline(graphs)[None] + drawn[:, None] - predicted.log_seconds
    assert 0.85 < (np.abs(off) < 1.645 * predicted.sd).mean() < 0.95


def test_known_clusters_that_differ_more_make_a_prior_less_sure(graphs, known):
    """Factors of about 2 and 7 over the roofline, instead of about 2."""
    sure = fit(graphs, known, 0, roofline(graphs)).prior_sd[0]
    seconds = np.array([[2.0], [7.2], [1.8], [6.6]]) * np.exp(graph_roofline(graphs.distinct, KNOWN, batches(4)))
    steps = MeasuredSteps(np.arange(MODELS), batches(4), seconds)
    other = OperatorTimes.fit(graphs, KNOWN, steps, seed=0, settings=known.settings)
    assert fit(graphs, other, 0, roofline(graphs)).prior_sd[0] > sure + 0.2


@pytest.mark.parametrize("runs", [5, 20])
def test_few_runs_find_a_level_that_the_figures_do_not_tell(graphs, known, runs):
    truth = roofline(graphs) + np.log(6.0)
    predicted = fit(graphs, known, runs, truth).predict(known, graphs.distinct, np.full(MODELS, 8.0))
    assert predicted.runs == runs
    assert np.abs(predicted.log_seconds - truth)[runs:].mean() < 0.1


def test_runs_find_a_class_of_operators_that_is_slow_on_the_new_cluster(graphs, known):
    """Products take five times as long as on the known clusters: no one level says that."""
    own, batch = graphs.distinct, np.full(MODELS, 8.0)
    seconds = 2.1 * roofline_seconds(own, [NEW])[:, 0] * np.where(own.flops > 0, 5.0, 1.0)
    truth = np.log(batch * (own.counts @ seconds))
    predicted = fit(graphs, known, 30, truth).predict(known, own, batch).log_seconds[30:]
    off = truth[30:] - roofline(graphs)[30:]
    assert (predicted - truth[30:]).std() < 0.6 * off.std()


def test_networks_without_a_roofline_beside_them_serve_as_well(graphs, known):
    alone = replace(known, rooflines=())
    truth = roofline(graphs) + np.log(6.0)
    predicted = fit(graphs, alone, 20, truth).predict(alone, graphs.distinct, np.full(MODELS, 8.0))
    assert np.abs(predicted.log_seconds - truth)[20:].mean() < 0.1


def test_more_runs_leave_less_doubt(graphs, known):
    truth = roofline(graphs) + np.log(3.0)
    few, many = (
        fit(graphs, known, n, truth).predict(known, graphs.distinct, np.full(MODELS, 8.0)).sd.mean() for n in (5, 50)
    )
    assert many < few


def test_tasks_worth_profiling_stand_for_every_kind(graphs, known):
    """Of thirty times the same model and one of another kind, two runs are one of each."""
    prior = fit(graphs, known, 0, roofline(graphs))
    everything = np.arange(MODELS)
    products = np.array([graphs.flops[graphs.graph == g].sum() > 0 for g in everything])
    assert products.sum() > 5
    alike = np.flatnonzero(products)[:1].repeat(30)
    pool = np.concatenate([alike, np.flatnonzero(~products)[:1]])
    chosen = prior.worth_profiling(known, graphs.distinct.take(pool), np.full(len(pool), 8.0), 2)
    assert sorted(chosen == len(pool) - 1) == [False, True]


def test_tasks_worth_profiling_are_different_ones_and_the_same_each_time(graphs, known):
    prior, batch = fit(graphs, known, 0, roofline(graphs)), np.full(MODELS, 8.0)
    chosen = [prior.worth_profiling(known, graphs.distinct, batch, 20, seed=seed) for seed in (0, 0, 1)]
    assert len(set(chosen[0])) == 20
    assert chosen[0].tolist() == chosen[1].tolist() != chosen[2].tolist()
    assert sorted(prior.worth_profiling(known, graphs.distinct, batch, MODELS + 1)) == list(range(MODELS))
    with pytest.raises(DataError, match="asked for 0, expected at least 1"):
        prior.worth_profiling(known, graphs.distinct, batch, 0)


def test_what_is_saved_is_loaded(graphs, known, tmp_path):
    fitted = fit(graphs, known, 10, roofline(graphs))
    fitted.save(tmp_path / "cluster.safetensors")
    loaded = NewCluster.load(tmp_path / "cluster.safetensors")
    one, two = (c.predict(known, graphs.distinct, np.full(MODELS, 8.0)) for c in (fitted, loaded))
    assert np.array_equal(one.log_seconds, two.log_seconds)
    assert np.array_equal(one.sd, two.sd)
    assert (loaded.accelerator, loaded.runs) == (NEW, 10)
    with pytest.raises(DataError, match=r"nothing\.safetensors: not a new cluster"):
        NewCluster.load(tmp_path / "nothing.safetensors")


def test_seconds_must_be_positive(graphs, known):
    with pytest.raises(DataError, match="positive seconds"):
        NewCluster.fit(
            NEW, known, graphs.distinct.take(np.arange(2)), np.ones(2), np.array([1.0, 0.0]), graphs.distinct
        )


@pytest.mark.parametrize(
    "batch", [np.full(3, 8.0), np.full(MODELS, 0.0), np.where(np.arange(MODELS) == 5, np.nan, 8.0)]
)
def test_every_graph_needs_a_batch(graphs, known, batch):
    prior = fit(graphs, known, 0, roofline(graphs))
    with pytest.raises(DataError, match="80 graphs need as many batches, all positive"):
        prior.predict(known, graphs.distinct, batch)
    with pytest.raises(DataError, match="80 graphs need as many batches, all positive"):
        prior.worth_profiling(known, graphs.distinct, batch, 5)
