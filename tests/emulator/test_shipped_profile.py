"""The profile that comes along, data/measured: read as a user's own would be."""

from pathlib import Path

import numpy as np
import pytest

from mfcp.data.emulator_calibration import calibrate, step_logs
from mfcp.data.log.tables import read_tables
from mfcp.data.log.validation import validate
from mfcp.emulator.measured import Measured
from mfcp.emulator.zoo import variants

pytestmark = pytest.mark.xdist_group("emulator")  # its graphs are captured once

FOLDER = Path(__file__).parents[2] / "data" / "measured"


@pytest.fixture(scope="module")
def tables():
    return read_tables(FOLDER)


def test_its_tables_pass_validation_whole(tables):
    validated = validate(tables, max_bad_share=0.0)
    assert {name: len(table) for name, table in validated.tables.items()} == {n: len(t) for n, t in tables.items()}


def test_it_holds_models_of_every_family_and_names_no_host(tables):
    tasks = tables["tasks"]
    assert set(tasks["graph_id"]) <= {variant.graph_id for variant in variants()}
    assert set(tasks["family"]) == {variant.family.name for variant in variants()}
    clusters = tables["clusters"]
    assert len(clusters) == 2
    assert (clusters[["peak_flops", "memory_bandwidth", "memory_bytes"]] > 0).all(axis=None)
    assert not {"host", "hostname", "user"} & set(clusters.columns)


def test_repeated_runs_agree(tables):
    """What was measured twice differs by far less than models do."""
    runs = tables["runs"][tables["runs"]["status"] == "succeeded"]
    spread = (
        np.log(runs["step_time_s"].astype(float)).groupby([runs["task_id"], runs["cluster_id"]]).agg(["std", "count"])
    )
    twice = spread[spread["count"] > 1]["std"]
    assert len(twice) > 30
    assert twice.median() < 0.15


def test_it_calibrates_a_processor(tables):
    """Families that the fit has not seen are told within a factor that says something about the machine."""
    for log in step_logs(tables):
        found = calibrate(log)
        assert found.log.phase == "train"
        assert found.r2 > 0.8


def test_the_default_platform_has_it_among_its_clusters(tables, small, graphs):
    from small_platform import SMALL

    from mfcp.emulator.platform import emulate

    joined = emulate(SMALL, 0, measured=Measured(tables["tasks"], tables["clusters"], tables["runs"]), graphs=graphs)
    machines = set(tables["clusters"]["cluster_id"])
    assert machines < set(joined["clusters"]["cluster_id"])
    per_cluster = joined["truth"].groupby("cluster_id").size()
    assert per_cluster[sorted(machines)].max() > 12
