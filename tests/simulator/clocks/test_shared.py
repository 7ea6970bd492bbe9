"""The clock on which jobs share accelerators: against the clock of events, and never more than a node has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.arrays import Floats
from mfcp.errors import DataError, SettingsError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.placement.machines import Machines, Placement, Requests
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

import_policies()
NAMES = ("best_fit", "dot_product", "fgd", "gpu_clustering", "gpu_packing", "random")


class FirstNode(Placement):
    """All nodes are equally good."""

    name = "test_first_node"

    def scores(self, machines: Machines, requests: Requests, node: int) -> Floats:
        return np.zeros(len(requests.cpu))


@st.composite
def cases(draw):
    """Jobs in whole minutes on equal nodes, over which the clock of events spreads no job; some fail."""
    n = draw(st.integers(1, 12))
    sizes = [draw(st.sampled_from([1, 2, 4]))] * draw(st.integers(1, 3))
    pick = lambda values: np.array(draw(st.lists(st.sampled_from(values), min_size=n, max_size=n)))  # noqa: E731
    gpus = pick([size for size in (1, 2, 4) if size <= max(sizes)])
    jobs = Jobs.simple(np.sort(pick([0.0, 60.0, 120.0, 300.0])), gpus, pick([60.0, 120.0, 600.0]),
                       success=pick([1.0, 0.5]), overhead=pick([0.0, 7.0]))  # fmt: skip
    return jobs, Cluster(np.array(sizes), np.zeros(len(sizes), np.int64))


@given(cases(), st.sampled_from(["fifo", "sjf", "qssf"]), st.sampled_from(["any", "nobody"]))
def test_whole_accelerators_on_the_first_node_are_as_on_the_clock_of_events(case, name, skip):
    jobs, cluster = case
    policy = Policy.build(name, skip=skip)
    found = simulate(jobs, cluster, policy, placement="test_first_node", seed=3)
    known = simulate(jobs, cluster, policy, placement="first", seed=3)
    assert np.allclose(found.started, known.started)
    assert np.allclose(found.finished, known.finished, equal_nan=True)
    assert np.allclose(found.held, known.held)
    assert np.allclose(found.lost, known.lost)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("policy", ["fifo", "qssf"])
def test_a_node_never_gives_more_than_it_has(name, policy):
    rng, n = np.random.default_rng(4), 300
    gpus = rng.choice([1, 1, 1, 2, 4], n)
    milli = np.where((gpus == 1) & (rng.random(n) < 0.7), rng.choice([100, 250, 500], n), 1000)
    jobs = Jobs.simple(np.sort(rng.uniform(0, 3000, n)), gpus, rng.exponential(300, n), milli=milli,
                       cpu=rng.integers(1, 9, n) * 1000, memory=rng.integers(1, 9, n) * 100)  # fmt: skip
    cluster = Cluster(np.array([4, 4, 2, 1]), np.array([0, 0, 1, 1]), ("a", "b"), np.array([16, 16, 12, 8]) * 1000,
                      np.array([1600, 1600, 1200, 800]))  # fmt: skip
    speed = np.where(rng.random((n, 2)) < 0.2, 0.0, rng.choice([1.0, 0.5], (n, 2)))
    speed[:, 0] = 1.0
    outcome = simulate(jobs, cluster, Policy.build(policy), placement=name, speed=speed, seed=1)
    assert np.isfinite(outcome.finished).all()
    log = outcome.log
    node = log[log["event"] == "started"].set_index("job")["node"].reindex(range(n)).to_numpy()
    assert (speed[np.arange(n), cluster.type[node]] > 0).all()
    assert np.allclose(outcome.finished - outcome.started, jobs.duration / speed[np.arange(n), cluster.type[node]])
    for moment in outcome.started:
        runs = (outcome.started <= moment) & (outcome.finished > moment)
        for column, most in (
            (gpus * milli, cluster.size * 1000),
            (jobs.cpu, cluster.cpu),
            (jobs.memory, cluster.memory),
        ):
            assert (np.bincount(node[runs], column[runs], 4) <= most + 1e-9).all()
    waits = outcome.started > jobs.submit + 1e-9
    assert waits.any()
    assert outcome.held.sum() == pytest.approx((outcome.executed * gpus * milli / 1000).sum())


def test_halves_share_an_accelerator_and_a_whole_one_waits():
    jobs = Jobs.simple(np.zeros(3), np.ones(3), np.array([10.0, 20.0, 5.0]), milli=np.array([500, 500, 1000]))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("fifo"), placement="fgd")
    assert outcome.started.tolist() == [0, 0, 20]
    assert outcome.metrics()["utilization"] == pytest.approx((5 + 10 + 5) / 25)


def test_what_does_not_go_together_is_told():
    jobs = Jobs.simple(np.zeros(2), np.array([1, 4]), np.ones(2))
    with pytest.raises(SettingsError, match="placement 'fgd' goes with policies that start jobs by a fixed order"):
        simulate(jobs, Cluster.parse("8"), Policy.build("srtf"), placement="fgd")
    with pytest.raises(SettingsError, match=r"placement 'nowhere': known are first, best, fastest, best_fit, .*fgd"):
        simulate(jobs, Cluster.parse("8"), Policy.build("fifo"), placement="nowhere")
    parts = Jobs.simple(np.zeros(2), np.array([1, 2]), np.ones(2), milli=np.array([500, 500]))
    with pytest.raises(DataError, match="job 1 asks for 500 thousandths of each of 2 accelerators"):
        simulate(parts, Cluster.parse("4"), Policy.build("fifo"), placement="fgd")
    with pytest.raises(DataError, match="job 1 fits on no empty node: 4 accelerators, 0 thousandths of a core"):
        simulate(jobs, Cluster.parse("4x2"), Policy.build("fifo"), placement="fgd")
