from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_platform import SMALL

from mfcp.emulator import zoo
from mfcp.emulator.efficiency import nominal
from mfcp.emulator.measured import OWNER, Measured
from mfcp.emulator.platform import emulate
from mfcp.emulator.settings import Drift
from mfcp.errors import DataError, SettingsError

pytestmark = pytest.mark.xdist_group("emulator")  # its graphs are captured once


@pytest.fixture(scope="module")
def profile(small):
    """Two machines on which each model of the small platform but one ran three times at two batches."""
    rng = np.random.default_rng(0)
    graph_id = sorted(small["tasks"]["graph_id"].unique())[1:]
    tasks = pd.DataFrame([(f"{g}/b{b}/fp32", g, b) for g in graph_id for b in (4, 8)]).set_axis(
        ["task_id", "graph_id", "batch_size"], axis=1
    )
    clusters = pd.DataFrame(
        {
            "cluster_id": ["cpu-0a-t1", "cpu-0a-t2"],
            "accelerator": "Some processor",
            "memory_bytes": 24e9,
            "peak_flops": [5e10, 1e11],
            "memory_bandwidth": 1e10,
            "software": "torch",
        }
    )
    rows = []
    for i, cluster in enumerate(clusters["cluster_id"]):
        for task in tasks.itertuples():
            for attempt in range(3):
                seconds = task.batch_size * (0.1 if task.batch_size == 8 else 0.12) / (i + 1)
                seconds *= np.exp(0.02 * rng.standard_normal())
                rows.append((task.task_id, cluster, attempt + 1, seconds, task.batch_size / seconds, "succeeded", 1e9))
    columns = ["task_id", "cluster_id", "attempt", "step_time_s", "samples_per_s", "status", "peak_memory_bytes"]
    return Measured(tasks.assign(precision="fp32"), clusters, pd.DataFrame(rows, columns=columns))


@pytest.fixture(scope="module")
def joined(profile, graphs):
    settings = SMALL.model_copy(update={"outages": 0.0, "hazard": 1e-6, "failures": 0.0, "noise": 0.0})
    return emulate(settings, 0, measured=profile, graphs=graphs)


def test_measured_machines_join_with_their_own_step_times(joined, small):
    """The faster batch counts: a task of batch B takes B / 8 steps of 0.8 s on the first machine."""
    runs = joined["runs"].merge(joined["tasks"][["task_id", "batch_size", "graph_id"]], on="task_id")
    own = runs[(runs["cluster_id"] == "cpu-0a-t1") & (runs["status"] == "succeeded")]
    assert own["graph_id"].nunique() > 10
    np.testing.assert_allclose(own["step_time_s"], 0.1 * own["batch_size_y"], rtol=0.05)
    others = joined["truth"][~joined["truth"]["cluster_id"].str.startswith("cpu")].reset_index(drop=True)
    assert set(others["cluster_id"]) == set(small["clusters"]["cluster_id"])


def test_what_no_profile_holds_is_of_the_owner_and_speeds_are_comparable(joined):
    machines = joined["clusters"].set_index("cluster_id").loc[["cpu-0a-t1", "cpu-0a-t2"]]
    assert (machines["owner"] == OWNER).all()
    ratio = machines["pool_size"].iloc[0] / machines["pool_size"].iloc[1]
    assert ratio == pytest.approx(2, rel=0.1)
    truth = np.log(joined["truth"].pivot(index="task_id", columns="cluster_id", values="duration_s").dropna())
    assert abs(truth[machines.index].mean().mean() - truth.mean().mean()) < 0.7


def test_a_model_that_was_not_measured_never_runs_there(joined, small):
    missing = sorted(small["tasks"]["graph_id"].unique())[0]
    tasks = joined["tasks"].loc[joined["tasks"]["graph_id"] == missing, "task_id"]
    assert len(tasks)
    for name in ("runs", "truth"):
        table = joined[name]
        assert not (table["cluster_id"].str.startswith("cpu") & table["task_id"].isin(tasks)).any()
    pairs = joined["colocation"]
    assert not (pairs["cluster_id"].str.startswith("cpu") & pairs["task_a"].isin(tasks)).any()


def test_runs_in_another_precision_do_not_count(profile, joined, graphs):
    """Twice as fast in half precision, as a task or as a run of an FP32 task: the machine stays what it was."""
    half = profile.tasks.assign(task_id=profile.tasks["task_id"] + "/half", precision="amp_bf16")
    names = {"task_id": profile.runs["task_id"] + "/half", "samples_per_s": 2 * profile.runs["samples_per_s"]}
    runs = pd.concat([profile.runs, profile.runs.assign(**names)], ignore_index=True)
    both = Measured(pd.concat([profile.tasks, half], ignore_index=True), profile.clusters, runs)
    told = Measured(
        profile.tasks, profile.clusters, runs.assign(
            task_id=[*profile.runs["task_id"]] * 2, precision=np.repeat(["fp32", "amp_bf16"], len(profile.runs))
        )
    )  # fmt: skip
    settings = SMALL.model_copy(update={"outages": 0.0, "hazard": 1e-6, "failures": 0.0, "noise": 0.0})
    for measured in (both, told):
        pd.testing.assert_frame_equal(emulate(settings, 0, measured=measured, graphs=graphs)["truth"], joined["truth"])


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("tasks", {"graph_id": "lenet@28"}, "no succeeded FP32 run of a model of the platform"),
        ("tasks", {"precision": "amp_bf16"}, "no succeeded FP32 run of a model of the platform"),
        ("tasks", {"task_id": "a"}, "table 'tasks' has 'a' twice"),
        (
            "runs",
            {"peak_memory_bytes": None},
            "table 'runs' has no column 'peak_memory_bytes'; .* `mfcp profile` wrote",
        ),
        ("runs", {"samples_per_s": "fast"}, "table 'runs', '.*': samples_per_s is 'fast', expected a positive number"),
        ("runs", {"step_time_s": np.nan}, "step_time_s is 'nan', expected a positive number"),
        ("clusters", {"memory_bytes": "24 GB"}, "table 'clusters', 'cpu-0a-t1': memory_bytes is '24 GB', expected"),
        ("clusters", {"peak_flops": "unknown"}, "peak_flops is 'unknown', expected a positive number"),
    ],
)
def test_a_folder_that_cannot_join_says_why_before_any_capture(profile, monkeypatch, table, change, message):
    monkeypatch.setattr(zoo, "capture_all", None)
    name, value = next(iter(change.items()))
    frame = getattr(profile, table)
    frame = frame.drop(columns=name) if value is None else frame.assign(**change)
    with pytest.raises(DataError, match=f"measured: .*{message}"):
        emulate(SMALL, 0, measured=replace(profile, **{table: frame}))


def test_names_are_checked_before_any_capture_and_measured_machines_may_drift(profile, monkeypatch, graphs):
    """A calibration acts on emulated clusters alone: one of the measured processor would do nothing."""
    settings = SMALL.model_copy(update={"drift": (Drift(cluster="cpu-0a-t1", day=0, slowdown=2.0),)})
    assert "cpu-0a-t1" in set(emulate(settings, 0, measured=profile, graphs=graphs)["truth"]["cluster_id"])
    monkeypatch.setattr(zoo, "capture_all", None)
    with pytest.raises(SettingsError, match=r"accelerators \(Some processor\) are none of the platform's"):
        emulate(SMALL, 0, measured=profile, calibrated={"Some processor": nominal()})
    with pytest.raises(SettingsError, match="unknown cluster 'cpu-0a-t1'"):
        emulate(settings, 0)


def test_figures_of_a_measured_machine_may_be_unknown(profile):
    clusters = profile.clusters.assign(peak_flops=np.nan)
    assert replace(profile, clusters=clusters).of(profile.tasks["graph_id"]).names == ["cpu-0a-t1", "cpu-0a-t2"]
