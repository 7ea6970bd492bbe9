"""The queue inside a simulated cluster."""

import numpy as np
import pytest
from platform_simulated import SETTINGS, assign, assigned_runs, delivered, store_of

from mfcp.errors import SettingsError
from mfcp.platform.simulation.queues import ClusterQueues
from mfcp.platform.simulation.simulator import Simulator


def seconds(tasks, begin):
    """Of tasks named by their duration; those named `late` take twice as long from 100 s on."""
    return np.array([20.0 if t == "late" and b < 100 else 40.0 if t == "late" else float(t)
                     for t, b in zip(tasks, begin, strict=True)])  # fmt: skip


def queues(policy="fifo", servers=1):
    made = ClusterQueues(policy, servers, {})
    for task, moment in [("50", 0.0), ("60", 1.0), ("5", 2.0)]:
        made.add("a", task, moment)
    return made


def test_the_policy_says_who_is_next():
    assert queues().times("a", seconds) == {"50": (0.0, 50.0), "60": (50.0, 110.0), "5": (110.0, 115.0)}
    assert queues("sjf").times("a", seconds) == {"50": (0.0, 50.0), "5": (50.0, 55.0), "60": (55.0, 115.0)}
    assert queues("srtf").times("a", seconds)["5"] == (2.0, 7.0)
    assert queues(servers=2).times("a", seconds) == {"50": (0.0, 50.0), "60": (1.0, 61.0), "5": (50.0, 55.0)}


def test_a_duration_that_depends_on_the_start_is_that_of_the_start():
    made = queues()
    made.add("a", "late", 3.0)
    assert made.times("a", seconds)["late"] == (115.0, 155.0)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las"])
def test_what_has_happened_stays_when_tasks_come_in(policy):
    made = queues(policy)
    before = made.times("a", seconds)
    made.add("a", "7", 60.0)
    after = made.times("a", seconds)
    assert {task: each for task, each in before.items() if each[1] <= 60.0}.items() <= after.items()


def test_a_list_starts_anew_when_the_cluster_is_empty():
    made = queues()
    ends = {task: end for task, (_, end) in made.times("a", seconds).items()}
    made.forget("a", ends, 114.0)
    assert len(made.waiting["a"]) == 3
    made.forget("a", ends, 115.0)
    assert made.waiting == {}


def test_a_policy_that_needs_deadlines_is_refused():
    with pytest.raises(SettingsError, match="needs deadlines"):
        ClusterQueues("edf", 1, {})


def test_two_servers_run_two_tasks_at_once(home):
    """The platform's own clusters, with a setting."""
    store = store_of(home)
    simulator = Simulator(home, store, SETTINGS.model_copy(update={"policy": "srtf", "servers": 2, "per_hour": 12.0}))
    for _ in range(30):
        simulator.step(1)
        assign(store)
    back, overlapping = assigned_runs(delivered(home)), 0
    for _, own in back.groupby("cluster_id"):
        start = own["started_at"].astype("int64").to_numpy()
        order = np.argsort(start)
        unit = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}[own["started_at"].dt.unit]
        end = (start + own["duration_s"].to_numpy() * unit)[order]
        overlapping += int((start[order][1:] < end[:-1]).sum())
    assert len(back) > 20
    assert overlapping > 0
