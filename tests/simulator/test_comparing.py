"""Two runs of the same jobs."""

import numpy as np
import pytest

from mfcp.simulator.cluster import Cluster
from mfcp.simulator.comparing import paired_difference, who_waits
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def runs(seed=0, n=400):
    rng = np.random.default_rng(seed)
    submit, duration = np.sort(rng.uniform(0, 6e4, n)), np.exp(rng.normal(6, 1, n))
    jobs = Jobs.simple(submit, rng.choice([1, 4], n), duration, user=rng.choice(["a", "b", "c"], n))
    return [simulate(jobs, Cluster.parse("8"), Policy.build(name)) for name in ("fifo", "srsf")]


def test_the_difference_is_of_the_same_jobs_and_its_interval_covers_it():
    fifo, srsf = runs()
    found = paired_difference(fifo, srsf)
    assert found["mean_s"] == pytest.approx(srsf.jct.mean() - fifo.jct.mean())
    assert found["ratio"] == pytest.approx(srsf.jct.mean() / fifo.jct.mean())
    assert found["ci_low_s"] < found["mean_s"] < found["ci_high_s"] < 0
    same = paired_difference(fifo, fifo)
    assert same["mean_s"] == same["ci_low_s"] == same["ci_high_s"] == 0


def test_who_waits_by_size_and_user():
    fifo, srsf = runs()
    rows = who_waits(fifo, srsf)
    sizes = rows[rows["by"] == "size"]
    assert sizes["group"].tolist() == ["1", "4-7"]
    assert sizes["jobs"].sum() == rows[rows["by"] == "user"]["jobs"].sum() == 400
    mean = np.average(sizes["first_s"], weights=sizes["jobs"])
    assert mean == pytest.approx((fifo.jct - fifo.jobs.duration).mean())
    assert (rows["change_s"] == rows["second_s"] - rows["first_s"]).all()
