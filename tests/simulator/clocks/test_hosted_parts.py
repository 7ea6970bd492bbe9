"""What a trace says of workers and hosts."""

import numpy as np
import pytest

from mfcp.errors import SettingsError
from mfcp.simulator.beliefs import NoisyDurations
from mfcp.simulator.clocks.hosted_parts import HostedParts
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.semantics import preset
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def jobs_of(gpus, duration, **columns):
    return Jobs.simple(np.zeros(len(gpus)), np.array(gpus), np.array(duration, float), **columns)


def test_workers_have_their_part_of_a_job_and_an_iteration_takes_longer_with_less_cpu():
    jobs = jobs_of([4, 1], [100, 10], cpu=np.array([8000, 500]), memory=np.array([400, 0]))
    cluster = Cluster(np.array([8, 4]), np.zeros(2, int), cpu=np.array([64000, 32000]))
    parts = HostedParts.of(jobs, cluster, Configurations.elastic(jobs, cluster))
    assert parts.capacity.tolist() == [[8, 64000, np.inf], [4, 32000, np.inf]]
    assert parts.peak.tolist() == [[1, 2000, 100], [1, 500, 0]]
    assert parts.server.tolist() == [[0, 1000, 50], [0, 250, 0]]
    rows = np.arange(2)
    sizes = np.stack([parts.peak, parts.peak * [1, 0.5, 1], parts.peak * [1, 2, 2]], axis=1)
    assert parts.seconds(rows, sizes) == pytest.approx(np.array([[400, 800, 400], [10, 20, 10]]))
    assert parts.together(rows, np.array([4, 1])) == pytest.approx([4, 1])
    assert parts.together(rows, np.array([2, 8])) == pytest.approx([4 * 0.5**0.9, 8**0.9])


def test_measured_sizes_decide_what_other_numbers_of_workers_do():
    jobs, cluster = jobs_of([4], [100]), Cluster.parse("2x8")
    rate = np.array([[0.0, 0.006, 0.01, 0.012]])
    parts = HostedParts.of(jobs, cluster, Configurations(np.array([1, 2, 4, 8]), np.zeros(4, int), rate, np.zeros(4)))
    row = np.zeros(6, int)
    pace = parts.together(row, np.array([1, 2, 3, 4, 8, 16])) / parts.seconds(row, parts.peak[row, None])[:, 0]
    between = 0.006 * (0.01 / 0.006) ** np.log2(1.5)
    assert pace == pytest.approx([0.003, 0.006, between, 0.01, 0.012, 0.012])


def test_a_job_without_accelerators_is_told():
    jobs, cluster = jobs_of([1, 0], [100, 5]), Cluster.parse("2x8")
    with pytest.raises(SettingsError, match="job 1 has no accelerator"):
        HostedParts.of(jobs, cluster, Configurations.rigid(jobs_of([1], [1]), cluster))


@pytest.mark.parametrize("policy", ["qore_dl", "qore_dl:servers", "optimus_on_hosts", "slaq_on_hosts"])
def test_a_trace_runs_on_hosts_and_holds_what_it_holds(policy):
    rng = np.random.default_rng(1)
    n = 60
    submit, gpus, duration = np.sort(rng.uniform(0, 9000, n)), rng.choice([1, 2, 4], n), rng.uniform(100, 3000, n)
    jobs = Jobs.simple(
        submit, gpus, duration, deadline=submit + duration * rng.uniform(0.7, 3, n), cpu=gpus * 4000,
        memory=gpus * 16000, success=np.full(n, 0.9),
    )  # fmt: skip
    cluster = Cluster(np.full(3, 4), np.zeros(3, int), cpu=np.full(3, 20000), memory=np.full(3, 80000))
    name, _, servers = policy.partition(":")
    outcome = simulate(
        jobs, cluster, Policy.build(name, servers=bool(servers)), belief=NoisyDurations(mre=0.25), seed=2
    )
    metrics = outcome.metrics()
    assert metrics["never_ends"] == 0
    assert 0 < metrics["utilization"] <= 1
    assert outcome.taken.sum() <= metrics["makespan_s"]


def test_what_does_not_go_with_hosts_is_told():
    jobs = jobs_of([1], [1])
    jobs = jobs_of([1], [1], deadline=np.array([9.0]))
    policy = Policy.build("qore_dl")
    with pytest.raises(SettingsError, match="'qore_dl' runs on a clock of hosts; choose semantics of plain"):
        simulate(jobs, Cluster.parse("1"), policy, semantics=preset("muri"))
    with pytest.raises(SettingsError, match="plans on one type of accelerator, and the cluster has a, b"):
        simulate(jobs, Cluster.parse("a:1,b:1"), policy)
    with pytest.raises(SettingsError, match="is for a clock of events"):
        simulate(jobs, Cluster.parse("1"), policy, placement="fgd")
    with pytest.raises(SettingsError, match="needs deadlines"):
        simulate(jobs_of([1], [1]), Cluster.parse("1"), policy)
