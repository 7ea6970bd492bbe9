"""Speeds and configurations of the jobs of a trace."""

import numpy as np
import pandas as pd
import pytest

from mfcp.errors import DataError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.traces.rates import read_batches, read_configurations, read_pairs, read_speeds

CLUSTER = Cluster.parse("v100:4,k80:8")


@pytest.fixture
def jobs():
    return Jobs(
        np.array(["x", "y", "z"]), np.zeros(3), np.array([1, 2, 2]), np.array([10.0, 20.0, 30.0]),
        np.array([1.0, 0.5, 2.0]), kind=np.array(["bert", "vgg", "bert"]),
    )  # fmt: skip


def written(tmp_path, **columns):
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_speeds_of_models_and_of_jobs(tmp_path, jobs):
    path = written(
        tmp_path, model=["bert", "bert", "vgg"], type=["k80", "v100", "v100"], speed=[0.25, 1, 0.5], more=[1, 2, 3]
    )
    assert read_speeds(path, jobs, CLUSTER).tolist() == [[1, 0.25], [0.5, 0], [1, 0.25]]
    path = written(tmp_path, job=["z", "x", "y"], type=["k80"] * 3, speed=[3, 1, 2])
    assert read_speeds(path, jobs, CLUSTER).tolist() == [[0, 1], [0, 2], [0, 3]]


def test_configurations_by_speed_and_by_iterations(tmp_path, jobs):
    kind = {"model": ["bert", "bert", "vgg"], "type": ["v100", "v100", "k80"], "gpus": [1, 2, 8]}
    found = read_configurations(written(tmp_path, **kind, speed=[1, 1.5, 4]), jobs, CLUSTER).configurations(jobs)
    assert (found.gpus.tolist(), found.type.tolist()) == ([1, 2, 8], [0, 0, 1])
    assert found.rate.tolist() == [[1, 1.5, 0], [0, 0, 8], [0.5, 0.75, 0]]
    found = read_configurations(
        written(tmp_path, **kind, iterations_per_s=[3, 4, 5], watts=[300, 600, 0]), jobs, CLUSTER
    ).configurations(jobs)
    assert found.rate.tolist() == [[3, 4, 0], [0, 0, 5], [3, 4, 0]]
    assert found.watts.tolist() == [300, 600, 0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"speed": [1]}, "no column job or model, type; there are speed"),
        ({"model": ["bert"], "type": ["v100"], "speed": [1]}, "no row whose model is 'vgg', which job y"),
        ({"model": ["vgg", "bert"], "type": ["v100", "a100"], "speed": [1, 1]}, "row 2: type is 'a100', expected one"),
        ({"model": ["vgg", "bert"], "type": ["v100"] * 2, "speed": [1, -1]}, "row 2: speed is '-1', expected a number"),
        ({"model": ["vgg", "bert"], "type": ["v100"] * 2, "speed": [1, 0]}, "job x runs on no type of the cluster"),
        ({"model": ["vgg", "bert", "vgg"], "type": ["v100"] * 3, "speed": [1, 1, 2]}, "row 1 has a second one"),
    ],
)
def test_what_is_wrong_with_speeds_is_told(tmp_path, jobs, columns, message):
    with pytest.raises(DataError, match=message):
        read_speeds(written(tmp_path, **columns), jobs, CLUSTER)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"gpus": [1, 1]}, "expected one of the columns speed and iterations_per_s, got 0"),
        ({"gpus": [1, 1], "speed": [1, 1]}, "no column type, and the cluster has several"),
        ({"gpus": [1, 1.5], "type": ["k80"] * 2, "speed": [1, 1]}, "row 2: gpus is '1.5', expected a whole number"),
        ({"gpus": [1, 1], "type": ["k80"] * 2, "speed": [1, 0]}, "job x has no way to run with a speed above 0"),
    ],
)
def test_what_is_wrong_with_configurations_is_told(tmp_path, jobs, columns, message):
    with pytest.raises(DataError, match=message):
        read_configurations(written(tmp_path, model=["vgg", "bert"], **columns), jobs, CLUSTER)
    once = Jobs.simple(jobs.submit, jobs.gpus, jobs.duration)
    path = written(tmp_path, job=["0", "1", "2"], gpus=[1, 1, 1], type=["k80"] * 3, iterations_per_s=[1, 1, 1])
    with pytest.raises(DataError, match="the trace tells no iterations"):
        read_configurations(path, once, CLUSTER)


PHASES = {"first_epoch": [0, 3, 0], "batch_size": [8, 16, 4], "samples_per_epoch": [100, 100, 50]}


def test_batch_sizes_of_models_and_of_jobs(tmp_path, jobs):
    path = written(tmp_path, model=["bert", "bert", "gpt"], steps_per_s=[2, 1.5, 1], **PHASES)
    found = read_batches(path, jobs)
    assert (found.job.tolist(), found.epoch.tolist(), found.size.tolist()) == ([0, 0, 2, 2], [0, 3] * 2, [8, 16] * 2)
    assert (found.rate.tolist(), found.ahead.tolist()) == ([2, 1.5] * 2, [0] * 4)
    path = written(tmp_path, job=["y", "y", "x"], ahead=[1, 1, 0], steps_per_s=[2, 1.5, 1], **PHASES)
    found = read_batches(path, jobs)
    assert (found.job.tolist(), found.samples.tolist(), found.ahead.tolist()) == ([0, 1, 1], [50, 100, 100], [0, 1, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps_per_s": None}, r"t\.csv: no column steps_per_s"),
        ({"batch_size": [8, "many", 4]}, "row 2: batch_size is 'many', expected a whole number of 1 or more"),
        ({"first_epoch": [0, 0, 0]}, "row 2: 'bert' has two phases from the same epoch"),
        ({"first_epoch": [1, 3, 0]}, "row 1: the first phase of 'bert' is not at epoch 0"),
        ({"samples_per_epoch": [100, 90, 50]}, "row 2: 'bert' has epochs of different samples_per_epoch"),
        ({"steps_per_s": [2, 0, 1]}, "row 2: 'bert' has steps_per_s 0"),
        ({"model": ["gpt", "gpt", "gp3"]}, "no row is about a job of the trace; the first is 'bert'"),
    ],
)
def test_what_is_wrong_with_batch_sizes_is_told(tmp_path, jobs, change, message):
    columns = {"model": ["bert", "bert", "vgg"], "steps_per_s": [2, 1.5, 1]} | PHASES | change
    path = written(tmp_path, **{name: values for name, values in columns.items() if values is not None})
    with pytest.raises(DataError, match=message):
        read_batches(path, jobs)


PAIRS = {"model_a": ["bert", "bert"], "model_b": ["vgg", "bert"], "type": ["v100", "k80"], "speed_a": [0.8, 0.3]}


def test_pairs_are_of_both_orders(tmp_path, jobs):
    found = read_pairs(written(tmp_path, **PAIRS, speed_b=[0.5, 0.4]), jobs, CLUSTER)
    x, y = found.kind[:2]
    assert found.kind.tolist() == [x, y, x]
    assert found.speed[x, y].tolist() == [[0.8, 0.5], [0.0, 0.0]]
    assert found.speed[y, x].tolist() == [[0.5, 0.8], [0.0, 0.0]]
    assert found.speed[x, x].tolist() == [[0.0, 0.0], [0.3, 0.4]]  # as it says: the first is the one submitted first
    assert found.speed[y, y].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_pair_may_be_told_in_either_order_or_in_both(tmp_path, jobs):
    rows = {"model_a": ["vgg", "bert"], "model_b": ["bert", "vgg"], "speed_a": [0.1, 0.3], "speed_b": [0.2, 0.4]}
    found = read_pairs(written(tmp_path, **rows), jobs, Cluster.parse("4"))
    x, y = found.kind[:2]
    assert (found.speed[x, y, 0].tolist(), found.speed[y, x, 0].tolist()) == ([0.3, 0.4], [0.1, 0.2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"speed_b": [0.5, -1]}, "row 2: speed_b"),
        ({"speed_b": [0.5, "fast"]}, "row 2: speed_b"),
        ({"type": ["v100", "t4"]}, "row 2: type is 't4', expected one of v100, k80"),
        ({"model_b": ["vgg", "vgg"], "type": ["v100", "v100"]}, "row 1 has a second one"),
        ({"model_a": ["a", "b"], "model_b": ["c", "d"]}, "no row is about a model of the trace; the first is 'bert'"),
    ],
)
def test_pairs_that_make_no_sense_are_an_error(tmp_path, jobs, change, message):
    path = written(tmp_path, **({**PAIRS, "speed_b": [0.5, 0.4]} | change))
    with pytest.raises(DataError, match=message):
        read_pairs(path, jobs, CLUSTER)


def test_pairs_need_a_type_where_there_are_several(tmp_path, jobs):
    rows = {name: values for name, values in PAIRS.items() if name not in ("type", "model_b")}
    with pytest.raises(DataError, match="no column model_b, speed_b, type; there are model_a, speed_a"):
        read_pairs(written(tmp_path, **rows), jobs, CLUSTER)


@pytest.mark.parametrize(
    "read", [read_speeds, read_configurations, read_pairs, lambda path, jobs, _: read_batches(path, jobs)]
)
def test_a_table_without_rows_is_an_error(tmp_path, jobs, read):
    with pytest.raises(DataError, match=r"t.csv: no rows; expected at least one"):
        read(
            written(tmp_path, **{key: [] for key in ("model", "type", "speed", "gpus", *PAIRS, "speed_b")}),
            jobs,
            CLUSTER,
        )
