"""What a trace looks like."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.traces.description import describe_trace, fingerprint, size_class


def jobs(**changes):
    columns = {
        "submit": np.array([0.0, 3600, 7200]),
        "gpus": np.array([1, 2, 8]),
        "duration": np.array([60.0, 600, 900]),
    }
    columns |= changes
    others = {name: columns[name] for name in columns if name not in ("submit", "gpus", "duration")}
    return Jobs.simple(columns["submit"], columns["gpus"], columns["duration"], **others)


def test_load_by_size_and_hour():
    about = describe_trace(jobs(), Cluster.parse("8"))
    assert about["load"] == pytest.approx((60 + 1200 + 7200) / (8 * 7200))
    assert about["load_by_size"]["8+"] == pytest.approx(7200 / (8 * 7200))
    assert np.mean(about["load_by_hour"]) == pytest.approx(about["load"])
    assert about["share_below_30_min"] == 1.0
    assert about["findings"] == []


def test_the_fingerprint_is_of_what_decides_a_run():
    assert fingerprint(jobs()) == fingerprint(jobs(user=np.array(["a", "b", "c"])))
    assert fingerprint(jobs()) != fingerprint(jobs(duration=np.array([60.0, 601, 900])))


def test_contradictions_are_told():
    late = jobs(deadline=np.array([10.0, np.inf, 7300]), gpus=np.array([1, 2, 16]))
    assert describe_trace(late, Cluster.parse("8"))["findings"] == [
        "2 jobs cannot meet their deadline even if they start at once",
        "1 jobs ask for more accelerators than the cluster has of one type",
    ]
    same = Jobs.simple(np.zeros(12), np.ones(12), np.ones(12))
    assert describe_trace(same, Cluster.parse("8"))["findings"] == [
        "11 jobs equal another in submission, accelerators and duration",
        "submissions are rounded to minutes, so many fall on one instant",
    ]


def test_size_classes():
    assert size_class(np.array([1, 2, 3, 4, 7, 8, 64])).tolist() == ["1", "2-3", "2-3", "4-7", "4-7", "8+", "8+"]
