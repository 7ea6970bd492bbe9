"""Which clock a policy runs on, and what cannot run."""

import numpy as np
import pytest

from mfcp.errors import DataError, SettingsError
from mfcp.simulator.beliefs import NoDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.semantics import PRESETS
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


def made(submit, gpus, duration, **columns):
    return Jobs.simple(*(np.array(values, float) for values in (submit, gpus, duration)), **columns)


def test_a_job_larger_than_the_cluster_is_named():
    with pytest.raises(DataError, match="job 1 asks for 9 accelerators; the cluster has at most 8 of one type"):
        simulate(made([0, 0], [1, 9], [1, 1]), Cluster.parse("8"), Policy.build("fifo"))


def test_a_policy_without_what_it_uses_says_so():
    jobs = made([0], [1], [1])
    with pytest.raises(SettingsError, match="policy 'srsf' needs expected durations"):
        simulate(jobs, Cluster.parse("1"), Policy.build("srsf"), belief=NoDurations())
    with pytest.raises(SettingsError, match="policy 'edf' needs deadlines"):
        simulate(jobs, Cluster.parse("1"), Policy.build("edf"))


def test_policies_and_semantics_must_fit():
    jobs = made([0], [1], [1])
    with pytest.raises(SettingsError, match="policy 'fifo' runs on a clock of events; choose semantics of plain"):
        simulate(jobs, Cluster.parse("1"), Policy.build("fifo"), semantics=PRESETS["gavel"])
    with pytest.raises(SettingsError, match="policy 'max_min' runs on a clock of rounds"):
        simulate(jobs, Cluster.parse("1"), Policy.build("max_min"), semantics=PRESETS["muri"])


@pytest.mark.parametrize("name", ["max_min", "elastic_flow", "muri_l"])
def test_a_placement_is_for_a_clock_of_events(name):
    jobs = Jobs.simple(np.zeros(1), np.ones(1), np.ones(1), deadline=np.full(1, 9.0), stages=np.ones((1, 3)))
    simulate(jobs, Cluster.parse("4"), Policy.build(name))
    with pytest.raises(SettingsError, match="placement 'best' is for a clock of events"):
        simulate(jobs, Cluster.parse("4"), Policy.build(name), placement="best")
