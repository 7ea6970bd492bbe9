"""The clock of decisions."""

from typing import ClassVar

import numpy as np
import pytest

from mfcp.errors import SolverError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.deciding import Allotment, Deciding
from mfcp.simulator.semantics import SlotTerms
from mfcp.simulator.simulation import import_policies, simulate

import_policies()


class Scripted(Deciding):
    """Gives the first job a size by the time, in units of 10 s."""

    name: ClassVar[str] = ""
    sizes: tuple[int, ...]

    def decide(self, demand):
        step = int(demand.now // 10)
        chosen = np.full(len(demand.job), -1)
        chosen[0] = self.sizes[min(step, len(self.sizes) - 1)]
        return Allotment(chosen, 10.0 * (step + 1) if step + 1 < len(self.sizes) else np.inf)


def one(iterations, deadline=np.inf):
    return Jobs(
        np.array(["a"]), np.zeros(1), np.ones(1, np.int64), np.array([float(iterations)]), np.ones(1),
        deadline=np.array([deadline]),
    )  # fmt: skip


WAYS = Configurations(np.array([1, 2]), np.zeros(2, np.int64), np.array([[1.0, 2.0]]), np.array([100.0, 200.0]))


def test_progress_follows_the_size_and_energy_the_power():
    outcome = simulate(one(40), Cluster.parse("2"), Scripted(sizes=(0, -1, 1)), configurations=WAYS)
    assert outcome.finished == pytest.approx([35.0])  # 10 alone, a pause of 10, 30 at two a second
    assert outcome.joules == pytest.approx([10 * 100.0 + 15 * 200.0])
    assert outcome.log["event"].tolist() == ["submitted", "started", "stopped", "started", "finished"]


def test_a_change_is_charged_once_and_a_layout_known_before_costs_less():
    terms = SlotTerms(charge_s=2.0, per_doubling_s=1.0)
    outcome = simulate(one(30), Cluster.parse("2"), Scripted(sizes=(0, 1, 0)), configurations=WAYS, semantics=terms)
    # 10 - 3 at one a second, 10 - 4 at two a second, then 11 left behind a charge of 2 for a known layout
    assert outcome.finished == pytest.approx([20 + 2 + 30 - 7 - 12])


def test_events_within_a_slot_wait_for_it():
    jobs = Jobs.simple(np.array([0.0, 1.0]), np.array([1, 1]), np.array([5.0, 5.0]), deadline=np.array([99.0, 99.0]))
    outcome = simulate(jobs, Cluster.parse("2"), Policy.build("edf_widest"), semantics=SlotTerms(slot_s=4.0),
                       configurations=Configurations.rigid(jobs, Cluster.parse("2")))  # fmt: skip
    assert outcome.started.tolist() == [0.0, 4.0]
    assert outcome.finished.tolist() == [5.0, 9.0]


def on_one(submit, seconds, **terms):
    """Jobs of these seconds on one accelerator, by deadline."""
    jobs = Jobs.simple(
        np.array(submit), np.ones(len(submit), np.int64), np.array(seconds), deadline=np.full(len(submit), 999.0)
    )
    ways, semantics = Configurations.rigid(jobs, Cluster.parse("1")), SlotTerms(**terms)
    return simulate(jobs, Cluster.parse("1"), Policy.build("edf_widest"), semantics=semantics, configurations=ways)


def test_a_job_holds_what_it_has_to_the_end_of_a_slot():
    outcome = on_one([0.0, 20.0], [40.0, 10.0], slot_s=30.0, ends="with a slot")
    # The second job comes at 20 and waits for the slot; at 30 nothing ends; two slots from there hold 10 seconds.
    assert outcome.started.tolist() == [0.0, 60.0]
    assert outcome.finished.tolist() == [60.0, 90.0]


def test_who_is_done_within_a_slot_ends_when_something_else_happens():
    outcome = on_one([0.0, 45.0], [40.5, 10.0], slot_s=30.0, ends="with a slot")
    assert outcome.finished.tolist() == [41.0, 75.0]  # to the second, and noticed at 45
    assert outcome.started.tolist() == [0.0, 45.0]


class Waking(Deciding):
    """Runs the first job at its first size, and asks again at 30."""

    name: ClassVar[str] = ""

    def decide(self, demand):
        return Allotment(np.zeros(len(demand.job), int), 30.0)


def test_a_change_planned_for_the_end_of_a_slot_waits_for_what_ends_then():
    terms = SlotTerms(slot_s=30.0, ends="with a slot", charge_s=2.0)
    outcome = simulate(one(25), Cluster.parse("2"), Waking(), configurations=WAYS, semantics=terms)
    assert outcome.finished.tolist() == [32.0]  # at 30 it would have been done, and its end counted as 25
    longer = simulate(one(45), Cluster.parse("2"), Waking(), configurations=WAYS, semantics=terms)
    assert longer.work["decisions"] == 2  # now it is asked again at 30, with 17 seconds of work left


def test_ends_are_noticed_with_a_decision_and_told_as_they_were():
    terms = {"slot_s": 30.0, "ends": "with a decision", "charge": "every submission", "layouts": "none"}
    outcome = on_one([0.0, 5.0, 100.0], [10.0, 10.0, 10.0], charge_s=1.0, per_doubling_s=2.0, **terms)
    # 3 of charge while jobs are to come, again at 30 for who waited; at 100 none is, and the third pays nothing
    assert outcome.finished.tolist() == [13.0, 43.0, 110.0]
    assert outcome.started.tolist() == [0.0, 30.0, 100.0]
    # a job that had to wait to the last submission pays what it owes, and the next decision comes a slot later
    outcome = on_one([0.0, 5.0], [10.0, 10.0], charge_s=1.0, per_doubling_s=2.0, **terms)
    assert outcome.finished.tolist() == [13.0, 40.0]
    assert on_one([0.0, 5.0], [40.0, 10.0], charge_s=1.0, **terms).finished.tolist() == [41.0, 70.0]


def test_a_place_that_was_used_is_known_to_all_until_a_restart():
    terms = {"charge_s": 1.0, "per_doubling_s": 4.0, "layouts": "of places"}
    assert on_one([0.0, 0.0], [10.0, 10.0], **terms).finished.tolist() == [15.0, 26.0]
    assert on_one([0.0, 0.0], [10.0, 10.0], **terms | {"layouts": "of a job"}).finished.tolist() == [15.0, 30.0]
    # The second event forgets all places after it has charged who is on a new one; the third pays for that.
    more = on_one([0.0, 0.0, 0.0], [10.0, 10.0, 10.0], restart_every=1, restart_s=7.0, **terms)
    assert more.finished.tolist() == [15.0, 26.0, 48.0]


@pytest.mark.parametrize(("sizes", "why"), [((1,), "gives more than there is"), ((-1,), "asks for no further")])
def test_a_policy_that_breaks_the_rules_is_named(sizes, why):
    with pytest.raises(SolverError, match=why):
        simulate(one(40), Cluster.parse("1"), Scripted(sizes=sizes), configurations=WAYS)


def test_a_failed_attempt_starts_again_and_is_given_up_in_the_end():
    jobs = Jobs.simple(np.zeros(1), np.ones(1), np.full(1, 100.0), success=np.full(1, 1e-9))
    outcome = simulate(jobs, Cluster.parse("1"), Policy.build("optimus"), retries=1)
    assert outcome.log["event"].tolist() == ["submitted", "started", "failed", "started", "given_up"]
    assert outcome.lost[0] == pytest.approx(outcome.held[0])


class Dawdling(Deciding):
    """Lets everybody wait, and asks again a minute later."""

    name: ClassVar[str] = ""

    def decide(self, demand):
        return Allotment(np.full(len(demand.job), -1), demand.now + 60.0)


def test_jobs_that_are_let_wait_for_ever_are_an_error_and_no_endless_loop():
    with pytest.raises(SolverError, match="turn after turn; they never run"):
        simulate(Jobs.simple(np.zeros(1), np.ones(1), np.ones(1)), Cluster.parse("1"), Dawdling())
