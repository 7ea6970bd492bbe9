import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from small_platform import SMALL

from mfcp.data.log.schema import SCHEMA
from mfcp.emulator.efficiency import nominal
from mfcp.emulator.platform import EmulatorSettings, emulate
from mfcp.emulator.settings import Drift
from mfcp.errors import SettingsError

pytestmark = pytest.mark.xdist_group("emulator")  # its graphs are captured once

TINY = EmulatorSettings(tasks=4, families=("distilbert",))


def test_tables_have_every_column_of_the_schema_and_unique_keys(small):
    for name, table in SCHEMA.items():
        untold = {"epoch", "peak_memory_bytes"}  # of these an emulated log is silent
        assert {column.name for column in table.columns} - untold <= set(small[name].columns), name
        if table.unique:
            assert not small[name].duplicated(list(table.key)).any(), name


def test_references_hold_and_amounts_are_positive(small):
    runs, tasks = small["runs"], small["tasks"]
    assert set(runs["task_id"]) == set(tasks["task_id"])
    assert set(runs["cluster_id"]) == set(small["clusters"]["cluster_id"])
    assert set(tasks["graph_id"]) == set(small["nodes"]["graph_id"]) == set(small["edges"]["graph_id"])
    assert (runs["duration_s"] > 0).all()
    succeeded = runs[runs["status"] == "succeeded"]
    assert (succeeded["step_time_s"] > 0).all()


def test_same_seed_same_tables_and_another_seed_other_runs():
    first, again, other = emulate(TINY, 3), emulate(TINY, 3), emulate(TINY, 4)
    for name in first:
        pd.testing.assert_frame_equal(first[name], again[name])
    assert not first["runs"]["duration_s"].equals(other["runs"]["duration_s"])


def test_last_bits_of_logarithms_do_not_reach_the_tables(small):
    """Every float is the nearest to seven decimal digits; whole numbers are drawn and need no rounding."""
    for name in ("runs", "colocation", "truth"):
        values = small[name].select_dtypes("float64").to_numpy().ravel()
        values = values[np.isfinite(values)]
        assert len(values)
        np.testing.assert_array_equal(values, [float(f"{value:.7g}") for value in values], err_msg=name)


def test_observed_means_and_shares_agree_with_the_truth(graphs):
    """Means of up to 30 runs scatter around the truth by noise / sqrt(runs), shares binomially without outages."""
    calm = emulate(SMALL.model_copy(update={"outages": 0.0}), seed=0, graphs=graphs)
    runs = calm["runs"]
    truth = calm["truth"].set_index(["task_id", "cluster_id"])
    done = runs[runs["status"] == "succeeded"].groupby(["task_id", "cluster_id"])["duration_s"].mean()
    ratio = done / truth["duration_s"].reindex(done.index)
    assert abs(ratio.mean() - 1) < 0.01
    assert ratio.std() < 0.05
    finished = runs[runs["status"] != "cancelled"]
    outcome = (finished["status"] == "succeeded").groupby([finished["task_id"], finished["cluster_id"]])
    expected, count = truth["reliability"].reindex(outcome.mean().index).fillna(0.0), outcome.size()
    z = (outcome.sum() - count * expected).sum() / np.sqrt((count * expected * (1 - expected)).sum())
    assert abs(z) < 4


def test_character_of_the_platform(small):
    truth = small["truth"]
    duration = truth.pivot(index="task_id", columns="cluster_id", values="duration_s")
    speed = (1 / duration.dropna()).mean()
    assert (speed / speed.mean()).between(0.5, 1.6).all()
    assert 60 < duration.stack().median() < 3 * 3600
    assert duration.idxmin(axis=1).nunique() >= 4
    log = np.log(duration.dropna().to_numpy())
    residual = log - log.mean(0) - log.mean(1, keepdims=True) + log.mean()
    assert 0.02 < residual.var() / log.var() < 0.25
    assert 0.8 < truth["reliability"].mean() < 0.95
    assert truth["reliability"].max() > 0.95
    assert truth["reliability"].min() < 0.85


def test_each_task_ran_on_several_clusters_and_some_pairs_never(small):
    pairs = small["runs"].groupby(["task_id", "cluster_id"]).size().unstack()
    assert (pairs.notna().sum(axis=1) >= 4).all()
    assert 0.05 < pairs.isna().to_numpy().mean() < 0.3
    assert pairs.max().max() <= 30


def test_attempts_follow_time(small):
    runs = small["runs"].sort_values(["task_id", "cluster_id", "attempt"])
    step = runs.groupby(["task_id", "cluster_id"])["started_at"].diff().dropna()
    assert (step >= pd.Timedelta(0)).all()
    assert runs["started_at"].max() - runs["started_at"].min() > pd.Timedelta(days=30)


def test_pairs_out_of_memory_fail_every_time():
    tables = emulate(EmulatorSettings(tasks=8, families=("beit",), clusters=("atelier-2080tix4", "aurora-h100x1")), 0)
    runs = tables["runs"].merge(tables["truth"], how="left", on=["task_id", "cluster_id"])
    impossible = runs[runs["reliability"].isna()]
    assert len(impossible)
    assert set(impossible["status"]) == {"oom"}


@pytest.mark.parametrize(
    "change", [{"noise": 0.0}, {"hazard": 1e-6, "cancelled": 0.0, "failures": 0.0, "outages": 0.0}]
)
def test_switching_off_noise_or_hazard(change):
    settings = EmulatorSettings(tasks=3, families=("distilbert",), clusters=("meridian-a10x4",), missing=0.0, **change)
    runs = emulate(settings, 0)["runs"]
    if "noise" in change:
        spread = runs[runs["status"] == "succeeded"].groupby("task_id")["duration_s"].agg(np.ptp)
        assert (spread < 1e-6).all()
    else:
        assert (runs["status"] == "succeeded").all()


def test_more_work_takes_proportionally_longer():
    one, two = (
        emulate(TINY.model_copy(update={"work": work}), 0)["truth"].set_index(["task_id", "cluster_id"])["duration_s"]
        for work in (1.0, 2.0)
    )
    ratio = (two / one).dropna()
    assert len(ratio) > 20
    assert ratio.between(1.4, 2.01).all()


def test_an_outage_hits_all_clusters_of_an_owner_at_once(graphs):
    """With outages so frequent that each owner sees some: runs that one ended lie in few hours of the history."""
    settings = SMALL.model_copy(update={"outages": 10.0, "hazard": 1e-6, "failures": 0.0})
    runs = emulate(settings, 0, graphs=graphs)["runs"]
    hit = runs[runs["error"] == "outage"].assign(day=lambda t: t["started_at"].dt.floor("D"))
    atelier = hit[hit["cluster_id"].str.startswith("atelier")]
    days = atelier.groupby("day")["cluster_id"].nunique()
    assert days.max() == 3
    assert atelier["day"].nunique() < 21
    other = hit[hit["cluster_id"].str.startswith("harbour")]
    assert set(other["day"]) - set(atelier["day"])


def test_a_drift_slows_a_cluster_from_its_day_on_and_truth_is_as_of_the_end(graphs):
    change = Drift(cluster="meridian-a10x4", day=21, slowdown=1.5)
    settings = SMALL.model_copy(update={"noise": 0.0, "outages": 0.0})
    before = emulate(settings, 0, graphs=graphs)
    after = emulate(settings.model_copy(update={"drift": (change,)}), 0, graphs=graphs)
    runs = before["runs"].merge(after["runs"], on="run_id", suffixes=("", "_after"))
    ratio = (runs["step_time_s_after"] / runs["step_time_s"]).dropna()
    late = (runs["cluster_id"] == change.cluster) & (runs["started_at"] >= pd.Timestamp("2026-01-26"))
    np.testing.assert_allclose(ratio[late], 1.5, rtol=1e-6)  # seven digits
    np.testing.assert_allclose(ratio[~late], 1.0)
    truth = [t["truth"].set_index(["cluster_id", "task_id"])["duration_s"] for t in (before, after)]
    grown = (truth[1] / truth[0]).groupby(level=0).median()
    assert 1.3 < grown[change.cluster] <= 1.5
    assert grown.drop(change.cluster).max() == pytest.approx(1.0)


def test_calibrated_efficiencies_act_on_their_accelerator_alone(graphs):
    settings = SMALL.model_copy(update={"tasks": 12})
    usual, own = (
        emulate(settings, 0, graphs=graphs, calibrated=c)["truth"].set_index(["cluster_id", "task_id"])["duration_s"]
        for c in (None, {"A100": nominal(30.0)})
    )
    grown = (own / usual).groupby(level=0).median()
    assert grown["meridian-a100x2"] > 2
    assert grown.drop("meridian-a100x2").max() == pytest.approx(1.0)
    with pytest.raises(SettingsError, match=r"calibration: its accelerators \(Abacus\) are none of the platform's"):
        emulate(settings, 0, graphs=graphs, calibrated={"Abacus": nominal()})


def test_unknown_names_and_keys_are_errors():
    with pytest.raises(SettingsError, match="drift: unknown cluster 'mars'; the platform has meridian-a10x4"):
        emulate(TINY.model_copy(update={"clusters": ("meridian-a10x4",), "drift": (Drift(cluster="mars", day=1),)}), 0)
    with pytest.raises(SettingsError, match="unknown family 'resnot'; known: resnet"):
        emulate(EmulatorSettings(families=("resnot",)), 0)
    with pytest.raises(SettingsError, match="unknown cluster 'mars'"):
        emulate(EmulatorSettings(clusters=("mars",)), 0)
    with pytest.raises(SettingsError, match="least <= most"):
        emulate(EmulatorSettings(runs=(5, 2)), 0)
    with pytest.raises(ValidationError, match="extra"):
        EmulatorSettings(taks=3)
