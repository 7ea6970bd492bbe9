"""A run over time."""

import json

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
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
    hours, used, queue = over_time(outcome, 13)  # a point a second, the last at the end
    assert (hours * 3600).tolist() == pytest.approx(range(13))
    assert used.tolist() == [1] * 12 + [0]
    assert queue.tolist() == [0, 1, 1] + [0] * 10


def test_figure_and_chrome_trace(outcome, tmp_path):
    draw_timeline({"srtf": outcome}, tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").stat().st_size > 5000
    write_chrome_trace(outcome, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [(e["name"], e["ts"], e["dur"]) for e in events] == [("0", 0, 1e6), ("0", 3e6, 9e6), ("1", 1e6, 2e6)]
