"""The simulated world: what a run takes depends on task, cluster and attempt alone."""

import shutil

import pandas as pd
import pytest
from platform_simulated import SETTINGS, assign, assigned_runs, delivered, drain, store_of

from mfcp.platform.simulation.simulator import Simulator
from mfcp.platform.simulation.world import DAY, SimulatedRun

pytestmark = pytest.mark.xdist_group("simulator")  # one worker makes what they share


def test_what_a_run_takes_depends_on_task_cluster_and_attempt_alone(home, tmp_path_factory, graphs):
    outcomes, settings = [], SETTINGS.model_copy(update={"degraded": ""})
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
