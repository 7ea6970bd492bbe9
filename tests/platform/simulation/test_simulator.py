"""The simulated platform: the same tasks and logs whatever is asked when, whatever is killed when."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from platform_simulated import CLUSTERS, SETTINGS, assign, assigned_runs, delivered, drain, store_of

from mfcp.data.log.tables import read_tables
from mfcp.errors import SettingsError
from mfcp.platform.simulation.simulator import Simulator, main
from mfcp.platform.simulation.world import HOUR, SimulatedRun, number_of

pytestmark = pytest.mark.xdist_group("simulator")  # one worker makes what they share


def test_the_first_log_has_few_newcomers_and_is_valid(home):
    Simulator(home, store_of(home), SETTINGS)
    log = delivered(home)
    counts = log["tasks"]["family"].value_counts()
    assert counts["distilbert"] == SETTINGS.few
    assert counts["bert"] > 10
    assert set(log["clusters"]["cluster_id"]) == set(CLUSTERS)
    assert "truth" not in log
    assert set(log["tasks"]["graph_id"]) == set(log["nodes"]["graph_id"])


def test_tasks_come_run_where_they_were_assigned_and_their_logs_return(home):
    store = store_of(home)
    simulator = Simulator(home, store, SETTINGS)
    for _ in range(40):
        simulator.step(1)
        assign(store)
    log = delivered(home)
    submitted = simulator.state["submitted"]
    assert store.counts()["tasks"] == submitted
    assert 100 < submitted < 240  # four an hour for 40 hours
    back = assigned_runs(log)
    assert len(back) == simulator.state["back"] > 50
    assert back["task_id"].is_unique
    plan = store.assignments().set_index("task_id")["cluster_id"]
    assert (back["cluster_id"].to_numpy() == plan[back["task_id"]].to_numpy()).all()
    new = log["tasks"][log["tasks"]["task_id"].map(number_of).ge(0)]
    assert set(new["family"]) == {"bert", "distilbert"}
    trials = log["runs"][log["runs"]["task_id"].isin(new["task_id"]) & (log["runs"]["attempt"] <= SETTINGS.trial_runs)]
    assert set(trials.groupby("task_id").size()) <= {3, 4, 5, 6}  # tasks that do not fit are tried less
    assert trials.groupby("task_id")["cluster_id"].nunique().eq(2).all()
    # Tasks of a cluster run one after another.
    for _, own in back.groupby("cluster_id"):
        own = own.sort_values("started_at")
        ends = own["started_at"] + pd.to_timedelta(own["duration_s"], unit="s")
        assert (own["started_at"].iloc[1:].to_numpy() >= (ends.iloc[:-1] - pd.Timedelta(seconds=2)).to_numpy()).all()
    assert f"{submitted} tasks submitted" in simulator.status
    assert "day 1.67" in simulator.status


def test_steps_that_a_round_asks_for_are_run_and_told(home):
    """After the seconds that they take, once, whoever is killed meanwhile."""
    store = store_of(home)
    simulator = Simulator(home, store, SETTINGS)
    while store.pending()["tasks"].empty:
        simulator.step(0.1)
    task = store.pending()["tasks"]["task_id"][0]
    names = [name for name in CLUSTERS if name not in simulator.state["offline"]]
    cells = {"task_id": task, "cluster_id": names, "steps": 5, "saves": 0.1, "saves_s": 50.0, "takes_s": 1.5 * HOUR}
    assert store.ask(pd.DataFrame(cells)) == len(names)
    simulator.step(0.2)
    again = Simulator(home, store, SETTINGS)  # it was killed and started again
    again.step(0.2)
    assert len(store.measurements(open_only=True)) == len(names)
    again.step(1.5)
    told = store.measurements()
    assert set(told["status"]) <= {"measured", "failed"}
    logged = again.world.runs([SimulatedRun(task, name, 0, 0.0, 0.0) for name in names]).set_index("cluster_id")
    for row in told[told["status"] == "measured"].to_dict("records"):
        assert row["step_time_s"] == logged["step_time_s"][row["cluster_id"]]
    assert again.state["measuring"] == {}


def test_clusters_go_and_come_back(home):
    store = store_of(home)
    simulator = Simulator(home, store, SETTINGS.model_copy(update={"per_hour": 0.01, "days_between_outages": 0.5}))
    seen = set()
    for _ in range(60):
        simulator.step(1)
        assert sorted(store.offline()) == sorted(simulator.state["offline"])
        seen.add(tuple(simulator.state["offline"]))
    assert () in seen
    assert len(seen) > 2


class CutError(Exception):
    pass


def test_a_step_cut_anywhere_is_taken_again_to_the_same_end(home, monkeypatch):
    """Fails in turn before and after each lasting effect: submit, a delivery, the state's file."""
    store = store_of(home)
    simulator = Simulator(home, store, SETTINGS)
    rng, cuts = np.random.default_rng(0), 0
    for _ in range(30):
        with monkeypatch.context() as patch:
            for target, name in ((store, "submit"), (simulator, "_deliver"), (simulator, "_save")):
                _cut_sometimes(patch, target, name, rng)
            try:
                simulator.step(1)
            except CutError:
                cuts += 1
                simulator = Simulator(home, store, SETTINGS)
        assign(store)
    assert cuts > 5
    simulator = drain(home, store)
    log = delivered(home)
    numbers = sorted(map(number_of, store.assignments()["task_id"]))
    assert numbers == list(range(simulator.state["submitted"]))
    back = assigned_runs(log)
    assert back["task_id"].is_unique
    assert len(back) == simulator.state["back"]


def _cut_sometimes(patch, target, name, rng):
    work = getattr(target, name)

    def cut(*arguments):
        chance = rng.random()
        if chance < 0.1:
            raise CutError
        result = work(*arguments)
        if chance > 0.9:
            raise CutError
        return result

    patch.setattr(target, name, cut)


@pytest.mark.long
def test_killed_and_started_again_it_goes_on(home):
    command = [sys.executable, "-m", "mfcp.platform.simulation.simulator", "--home", str(home), "--every", "0.05"]
    command += [
        "--speed",
        "7200",
        "--families",
        *SETTINGS.families,
        "--clusters",
        *CLUSTERS,
        "--newcomers",
        "distilbert",
    ]
    command += ["--trial-runs", "2", "--delivery-hours", "0.5", "--history", "30", "--degraded", ""]
    store, submitted = store_of(home), []
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        before, deadline = store.counts()["tasks"], time.monotonic() + 120
        while store.counts()["tasks"] < before + 20 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
            assign(store)
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors.decode()
        submitted.append(store.counts()["tasks"])
    assert submitted[1] >= submitted[0] + 20 >= 40
    state = json.loads((home / "simulator.json").read_text())
    numbers = sorted(map(number_of, [*store.assignments()["task_id"], *store.pending()["tasks"]["task_id"]]))
    assert numbers == list(range(submitted[1]))
    assert state["submitted"] <= submitted[1]
    for unfinished in (home / "inbox").glob(".*"):
        shutil.rmtree(unfinished)
    runs = delivered(home)["runs"]
    assert runs["run_id"].is_unique
    read_tables(home / "inbox" / "simulated-000000")


def test_another_seed_needs_another_home(home):
    Simulator(home, store_of(home), SETTINGS)
    with pytest.raises(SettingsError, match="is of seed 0, not 1"):
        Simulator(home, store_of(home), SETTINGS.model_copy(update={"seed": 1}))


def test_a_wrong_option_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"speed: .* greater than 0"):
        main(["--home", str(tmp_path), "--speed", "-1"])
