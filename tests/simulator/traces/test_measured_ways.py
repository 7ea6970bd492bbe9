"""Ways to run on numbers of accelerators that were not measured."""

import numpy as np
import pandas as pd
import pytest

from mfcp.errors import DataError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.traces import measured_ways
from mfcp.simulator.traces.rates import read_configurations

MODELS = {"bert": (2.0, 0.15), "gpt": (5.0, 0.1), "vgg": (0.5, 0.2), "dlrm": (0.1, 0.02)}
"""Seconds of an iteration on one accelerator, and of what two say to each other."""


def seconds(model, gpus):
    """Of computing and communicating, one after the other; a ring sends each part twice."""
    alone, talk = MODELS[model]
    return alone / gpus + talk * 2 * (gpus - 1) / gpus


@pytest.fixture
def jobs():
    names = np.array(list(MODELS))
    return Jobs(
        np.array([f"j{k}" for k in range(4)]), np.zeros(4), np.ones(4, np.int64), np.full(4, 50.0), np.full(4, 2.0),
        kind=names,
    )  # fmt: skip


def written(tmp_path, sizes=(1, 2, 8), **more):
    rows = [
        {"model": model, "gpus": size, "iterations_per_s": 1 / seconds(model, size)} | more
        for model in MODELS for size in sizes
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_sizes_between_and_beyond_those_measured_are_predicted(tmp_path, jobs):
    cluster = Cluster.parse("16")
    measured = read_configurations(written(tmp_path), jobs, cluster)
    ways = measured.with_sizes([1, 2, 4, 8, 16, 32], cluster)
    found = ways.configurations(jobs)
    assert found.gpus.tolist() == [1, 2, 4, 8, 16]  # of 32 the cluster has not so many
    assert ways.beyond == 4
    for column, size in enumerate(found.gpus):
        true = [1 / seconds(model, size) for model in MODELS]
        if size in (1, 2, 8):
            np.testing.assert_array_equal(found.rate[:, column], true)
        else:
            np.testing.assert_allclose(found.rate[:, column], true, rtol=0.12 if size == 4 else 0.35)


def test_the_table_with_its_predictions_is_read_again_as_it_was(tmp_path, jobs):
    cluster = Cluster.parse("2x8")
    ways = read_configurations(written(tmp_path), jobs, cluster).with_sizes([4, 16], cluster)
    frame = ways.frame(cluster)
    assert frame["predicted"].tolist() == [False, False, True, False, True] * 4
    frame.to_csv(tmp_path / "again.csv", index=False)
    again = read_configurations(tmp_path / "again.csv", jobs, cluster).configurations(jobs)
    np.testing.assert_array_equal(again.rate, ways.configurations(jobs).rate)


def test_the_table_keeps_watts_and_batches(tmp_path, jobs):
    cluster = Cluster.parse("8")
    rows = [{"model": m, "gpus": g, "speed": g, "watts": 250 * g, "batch_size": 8 * g} for m in MODELS for g in (1, 2)]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    frame = read_configurations(tmp_path / "t.csv", jobs, cluster).frame(cluster)
    assert frame["watts"].tolist() == [250, 500] * 4
    assert frame["batch_size"].tolist() == [8, 16] * 4


def test_only_types_and_sizes_that_run_are_predicted(tmp_path, jobs):
    cluster = Cluster.parse("v100:8,k80:4")
    rows = [
        {"model": model, "type": kind, "gpus": size, "speed": size**0.8 * (kind == "v100" or size > 1)}
        for model in MODELS for kind in ("v100", "k80") for size in (1, 2)
        if model != "vgg" or kind == "v100"
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    frame = read_configurations(tmp_path / "t.csv", jobs, cluster).with_sizes([1, 4, 8], cluster).frame(cluster)
    told = {(model, kind): part["gpus"].tolist() for (model, kind), part in frame.groupby(["model", "type"])}
    assert told["bert", "v100"] == [1, 2, 4, 8]
    assert told["bert", "k80"] == [2, 4]  # one does not run, eight are not there
    assert told["vgg", "v100"] == [1, 2, 4, 8]
    assert ("vgg", "k80") not in told


def test_nothing_is_predicted_where_all_is_there(tmp_path, jobs):
    measured = read_configurations(written(tmp_path), jobs, Cluster.parse("8"))
    assert measured.with_sizes([1, 2, 8, 16], Cluster.parse("8")) is measured


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sizes": (2,)}, "all were measured in one size; measure one of them in another"),
        ({"watts": 300.0}, "the watts of sizes that were not measured are not known; drop the column watts"),
        ({"sizes": range(1, 252)}, "1,004 ways to learn from, and at most 1,000 are looked at"),
    ],
)
def test_what_cannot_be_predicted_is_told(tmp_path, jobs, more, message):
    cluster = Cluster.parse("512")
    measured = read_configurations(written(tmp_path, **more), jobs, cluster)
    with pytest.raises(DataError, match=message):
        measured.with_sizes([4], cluster)


def test_jobs_whose_batch_grows_with_their_accelerators(tmp_path, jobs):
    """What two say to each other is said once for all samples: the more samples, the less it costs each."""
    cluster = Cluster.parse("16")
    rows = [
        {"model": m, "gpus": g, "batch_size": 32 * g, "speed": g / (alone + (g > 1) * talk)}
        for m, (alone, talk) in MODELS.items() for g in (1, 2, 8)
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    ways = read_configurations(tmp_path / "t.csv", jobs, cluster).with_sizes([4, 16], cluster)
    np.testing.assert_array_equal(ways.batch, 32 * ways.gpus)
    alone, talk = np.array([MODELS[ways.names[row]] for row in ways.row]).T
    np.testing.assert_allclose(ways.rate, ways.gpus / (alone + (ways.gpus > 1) * talk), rtol=0.2)


def test_sizes_take_the_batch_of_the_nearest(tmp_path, jobs):
    rows = [
        {"model": m, "gpus": g, "batch_size": b, "speed": g} for m in MODELS for g, b in ((1, 64), (2, 64), (8, 256))
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    cluster = Cluster.parse("32")
    ways = read_configurations(tmp_path / "t.csv", jobs, cluster).with_sizes([3, 6, 32], cluster)
    told = {(gpus, batch) for gpus, batch in zip(ways.gpus.tolist(), ways.batch.tolist(), strict=True)}
    assert told == {(1, 64), (2, 64), (8, 256), (3, 64), (6, 256), (32, 256)}


def test_speeds_are_predicted_in_any_unit(tmp_path, jobs):
    cluster, found = Cluster.parse("8"), []
    for unit in (1.0, 1e-290, 1e290):
        rows = [{"model": m, "gpus": g, "speed": unit * g**0.5 * 10**k} for k, m in enumerate(MODELS) for g in (1, 8)]
        pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
        ways = read_configurations(tmp_path / "t.csv", jobs, cluster).with_sizes([4], cluster)
        found.append(ways.rate[ways.predicted] / unit)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-6)


def test_many_are_predicted_as_few_are(tmp_path, jobs, monkeypatch):
    cluster = Cluster.parse("16")
    measured = read_configurations(written(tmp_path), jobs, cluster)
    whole = measured.with_sizes(range(1, 17), cluster)
    assert whole.predicted.sum() == 52
    monkeypatch.setattr(measured_ways, "_LEARNED", 12)  # in five parts, from all twelve
    np.testing.assert_allclose(measured.with_sizes(range(1, 17), cluster).rate, whole.rate, rtol=1e-12)


def test_speeds_that_are_too_far_apart_are_an_error(tmp_path, jobs):
    cluster = Cluster.parse("8")
    rows = [{"model": m, "gpus": g, "speed": s} for m in MODELS for g, s in ((1, 1e-300), (2, 1e300))]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    measured = read_configurations(tmp_path / "t.csv", jobs, cluster)
    with pytest.raises(DataError, match="speeds from 1e-300 to 1e\\+300 are too far apart"):
        measured.with_sizes([4], cluster)
