"""A run over time."""

import json

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.event_log import stretches
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate
from mfcp.simulator.timeline import draw_timeline, over_time, write_chrome_trace

import_policies()


@pytest.fixture
def outcome():
    jobs = Jobs.simple(np.array([0.0, 1]), np.array([1, 1]), np.array([10.0, 2]))
    return simulate(jobs, Cluster.parse("1"), Policy.build("srtf"))


def test_use_and_queue(outcome):
    hours, used, queue = over_time(outcome, 12)  # a period a second
    assert (hours * 3600).tolist() == pytest.approx(range(13))
    assert used.tolist() == pytest.approx([1] * 12)
    assert queue.tolist() == pytest.approx([0, 1, 1] + [0] * 9)


def test_a_period_has_the_mean_of_what_was_in_it(outcome):
    _, used, queue = over_time(outcome, 2)  # six seconds each; one job waits for two of the first six
    assert used.tolist() == pytest.approx([1, 1])
    assert queue.tolist() == pytest.approx([1 / 3, 0])


@pytest.mark.parametrize("periods", [1, 7, 100])
def test_means_keep_what_jobs_held(elastic, periods):
    hours, used, _ = over_time(elastic, periods)
    assert (used * np.diff(hours) * 3600).sum() * elastic.cluster.accelerators == pytest.approx(elastic.held.sum())


def test_accelerators_that_jobs_share_are_counted_once():
    rng = np.random.default_rng(0)
    duration = rng.uniform(5, 50, 30)
    jobs = Jobs.simple(np.sort(rng.uniform(0, 60, 30)), rng.choice([1, 2], 30), duration, stages=np.ones((30, 3)))
    shared = simulate(jobs, Cluster.parse("4"), Policy.build("muri_l", splits=False))
    hours, used, _ = over_time(shared, 50)
    assert used.max() <= 1 + 1e-9
    assert (used * np.diff(hours) * 3600).sum() * 4 == pytest.approx(shared.held.sum())


def test_figure_and_chrome_trace(outcome, tmp_path):
    draw_timeline({"srtf": outcome}, tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").stat().st_size > 5000
    write_chrome_trace(outcome, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [(e["name"], e["ts"], e["dur"]) for e in events] == [("0", 0, 1e6), ("0", 3e6, 9e6), ("1", 1e6, 2e6)]


@pytest.fixture
def elastic():
    """One job alone on two, then on one beside another; a third is declined."""
    jobs = Jobs.simple(
        np.array([0.0, 10, 11]), np.array([1, 1, 1]), np.array([40.0, 10, 500]), deadline=np.array([99.0, 60, 12])
    )
    return simulate(jobs, Cluster.parse("2"), Policy.build("elastic_flow"))


def test_sizes_that_change_and_jobs_that_are_declined(elastic, tmp_path):
    assert {"resized", "declined"} <= set(elastic.log["event"])
    _, used, queue = over_time(elastic)
    assert used.max() == pytest.approx(1)
    assert queue[-1] == pytest.approx(0)
    held = stretches(elastic.log)
    assert np.allclose(((held["end_s"] - held["start_s"]) * held["gpus"]).groupby(held["job"]).sum(), elastic.held[:2])
    write_chrome_trace(elastic, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["args"]["gpus"] for e in events if e["name"] == "0"} == {1, 2}
