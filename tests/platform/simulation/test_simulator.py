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

from mfcp.data.log.tables import read_tables
from mfcp.errors import SettingsError
from mfcp.platform.intake.inbox import read_delivery
from mfcp.platform.intake.merging import merge
from mfcp.platform.simulation.simulator import Simulator, main
from mfcp.platform.simulation.world import DAY, HOUR, SimulatedRun, SimulatorSettings, World, number_of
from mfcp.platform.state.store import Store

CLUSTERS = ("north-k80x8", "meridian-a10x4", "harbour-v100x2")
RULES = SimulatorSettings(
    history=30,
    families=("bert", "distilbert"),
    newcomers=("distilbert",),
    clusters=CLUSTERS,
    per_hour=4,
    speed=HOUR,
    trial_clusters=2,
    trial_runs=3,
    delivery_hours=1,
    degrades_on=0.5,
)

pytestmark = pytest.mark.xdist_group("simulator")  # one worker makes what they share


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(RULES, tmp_path_factory.mktemp("world") / "simulator")


@pytest.fixture
def home(tmp_path, world, request):
    """A home that has the captured graphs already."""
    shutil.copytree(request.getfixturevalue("graphs"), tmp_path / "simulator")
    return tmp_path


@pytest.fixture(scope="module")
def graphs(world, tmp_path_factory):
    return next(tmp_path_factory.getbasetemp().glob("world*/simulator"))


def store_of(home):
    return Store(f"sqlite:///{home}/platform.db")


def assign(store, cluster=lambda j: CLUSTERS[j % 3]):
    """Assign every task that waits, by its place."""
    waiting = store.pending()["tasks"]["task_id"]
    if len(waiting):
        plan = pd.DataFrame({"task_id": waiting, "cluster_id": [cluster(number_of(t)) for t in waiting]})
        assert store.assign({"version": "v", "tasks": len(plan)}, plan) is not None


def delivered(home):
    """The log that all deliveries make; nothing of it may be refused, nor may two say different things of one row."""
    found = {}
    for folder in sorted((home / "inbox").iterdir()):
        for name, table in read_delivery(folder).items():
            found.setdefault(name, []).append(table)
    merged = merge({}, {name: pd.concat(pieces, ignore_index=True) for name, pieces in found.items()})
    assert not merged.refused
    return merged.log


def drain(home, store, settings=RULES):
    """Let everything that was submitted come back, with no new tasks."""
    simulator = Simulator(home, store, settings.model_copy(update={"per_hour": 1e-6}))
    for _ in range(3):
        simulator.step(1000)
        assign(store)
    simulator.step(10_000)
    return simulator


def assigned_runs(log):
    runs = log["runs"]
    own = runs[runs["task_id"].map(number_of).ge(0) & (runs["attempt"] == RULES.trial_runs + 1)]
    return own.sort_values("run_id", ignore_index=True)


def test_the_first_log_has_few_newcomers_and_is_valid(home):
    Simulator(home, store_of(home), RULES)
    log = delivered(home)
    counts = log["tasks"]["family"].value_counts()
    assert counts["distilbert"] == RULES.few
    assert counts["bert"] > 10
    assert set(log["clusters"]["cluster_id"]) == set(CLUSTERS)
    assert "truth" not in log
    assert set(log["tasks"]["graph_id"]) == set(log["nodes"]["graph_id"])


def test_tasks_come_run_where_they_were_assigned_and_their_logs_return(home):
    store = store_of(home)
    simulator = Simulator(home, store, RULES)
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
    trials = log["runs"][log["runs"]["task_id"].isin(new["task_id"]) & (log["runs"]["attempt"] <= RULES.trial_runs)]
    assert set(trials.groupby("task_id").size()) <= {3, 4, 5, 6}  # tasks that do not fit are tried less
    assert trials.groupby("task_id")["cluster_id"].nunique().eq(2).all()
    # Tasks of a cluster run one after another.
    for _, own in back.groupby("cluster_id"):
        own = own.sort_values("started_at")
        ends = own["started_at"] + pd.to_timedelta(own["duration_s"], unit="s")
        assert (own["started_at"].iloc[1:].to_numpy() >= (ends.iloc[:-1] - pd.Timedelta(seconds=2)).to_numpy()).all()
    assert f"{submitted} tasks submitted" in simulator.status
    assert "day 1.67" in simulator.status


def test_what_a_run_takes_depends_on_task_cluster_and_attempt_alone(home, tmp_path_factory, graphs):
    outcomes, settings = [], RULES.model_copy(update={"degraded": ""})
    for steps in ([1] * 24, [8, 8, 8]):
        other = tmp_path_factory.mktemp("home")
        shutil.copytree(graphs, other / "simulator")
        store = store_of(other)
        simulator = Simulator(other, store, settings)
        for seconds in steps:
            simulator.step(seconds)
            assign(store)
        drain(other, store, settings)
        outcomes.append(assigned_runs(delivered(other)))
    first, second = (own.set_index("run_id")[["status", "duration_s"]] for own in outcomes)
    common = first.index.intersection(second.index)
    assert len(common) > 30
    pd.testing.assert_frame_equal(first.loc[common], second.loc[common])


def test_the_degraded_cluster_is_slower_from_its_day_on_and_no_other(world):
    task = world.tasks([0])["tasks"]["task_id"].iloc[0]

    def duration(cluster, day):
        rows = world.runs([SimulatedRun(task, cluster, k, day * DAY, day * DAY) for k in range(4)])
        return rows["step_time_s"].mean()

    assert duration("meridian-a10x4", 0.6) / duration("meridian-a10x4", 0.4) == pytest.approx(2, rel=0.3)
    assert duration("harbour-v100x2", 0.6) == duration("harbour-v100x2", 0.4)


def test_clusters_go_and_come_back(home):
    store = store_of(home)
    simulator = Simulator(home, store, RULES.model_copy(update={"per_hour": 0.01, "days_between_outages": 0.5}))
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
    simulator = Simulator(home, store, RULES)
    rng, cuts = np.random.default_rng(0), 0
    for _ in range(30):
        with monkeypatch.context() as patch:
            for target, name in ((store, "submit"), (simulator, "_deliver"), (simulator, "_save")):
                _cut_sometimes(patch, target, name, rng)
            try:
                simulator.step(1)
            except CutError:
                cuts += 1
                simulator = Simulator(home, store, RULES)
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
    command += ["--speed", "7200", "--families", *RULES.families, "--clusters", *CLUSTERS, "--newcomers", "distilbert"]
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
    Simulator(home, store_of(home), RULES)
    with pytest.raises(SettingsError, match="is of seed 0, not 1"):
        Simulator(home, store_of(home), RULES.model_copy(update={"seed": 1}))


def test_a_wrong_option_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"speed: .* greater than 0"):
        main(["--home", str(tmp_path), "--speed", "-1"])
