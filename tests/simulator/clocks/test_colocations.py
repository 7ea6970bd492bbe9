"""Time where jobs share accelerators: progress, charges, what is held, and what a policy must not do."""

import numpy as np
import pytest

from mfcp.errors import SolverError
from mfcp.simulator.clocks.colocations import run_colocations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.course import Course
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.colocating import Colocating, Colocation
from mfcp.simulator.semantics import EventTerms


class Together(Colocating):
    """All on the first accelerators, each half as fast per other job; `moves` puts them elsewhere at every event."""

    together = 3
    moves: bool = False
    step_factor: float = 1.0
    waits: bool = False
    spare: int = 0

    def decide(self, present):
        k = len(present.job)
        holds = np.zeros(present.holds.shape, bool)
        for row, gpus in enumerate(present.gpus):
            first = int(present.now) % 2 if self.moves else 0
            holds[row, first : first + gpus + self.spare] = True
        step = np.full(k, np.inf) if self.waits else present.step * k * self.step_factor
        return Colocation(step, holds & (not self.waits), present.overhead)


def run(submit, gpus, duration, terms=None, fails=None, speed=None, **settings):
    n = len(submit)
    jobs = Jobs.simple(
        np.array(submit, float), np.array(gpus), np.array(duration, float), stages=np.ones((n, 3)),
        overhead=np.arange(1.0, n + 1),
    )  # fmt: skip
    course = Course(jobs, Cluster.parse("2x2"), jobs.duration, np.empty((n, 0)) if fails is None else np.array(fails))
    return run_colocations(course, Together(**settings), terms or EventTerms(), np.ones(n) if speed is None else speed)


def test_jobs_that_share_go_on_at_the_speed_of_now():
    """The second comes at 10; from then both are half as fast until the first, with 20 left, ends at 50."""
    outcome = run([0, 10], [2, 1], [30, 50])
    assert outcome.finished == pytest.approx([50, 80])
    assert outcome.executed == pytest.approx([50, 70])
    assert outcome.held == pytest.approx([20 + 60, 20 + 30])  # of the accelerator that both have, each holds half
    assert outcome.in_use == pytest.approx(np.array([[0, 2], [10, 2], [50, 1], [80, 0]]))
    events = outcome.log[["job", "event"]].to_numpy().tolist()
    assert events == [
        [0, "submitted"],
        [0, "started"],
        [1, "submitted"],
        [1, "started"],
        [0, "finished"],
        [1, "finished"],
    ]


@pytest.mark.parametrize(
    ("charge", "ends"),
    [
        ("resumes", [50.0, 80.0]),  # nobody stops
        ("starts", [10 + 2 * 21, 52 + 50 - (52 - 12) / 2]),  # 1 s of the first, whose 21 of 30 are left at 10; 2 s
        ("every event", [10 + 1 + 2 * 21, 53 + 2 + 50 - (53 - 12) / 2]),  # at 10 of both, at 53 of the second again
    ],
)
def test_what_a_start_costs(charge, ends):
    outcome = run([0, 10], [2, 1], [30, 50], EventTerms(charge=charge))
    assert outcome.finished == pytest.approx(ends)


def test_a_charge_goes_on_when_something_else_happens():
    """Of the second of the first job half is paid when the other comes, at 0.5."""
    outcome = run([0, 0.5], [1, 1], [30, 500], EventTerms(charge="starts"))
    assert outcome.finished[0] == pytest.approx(1 + 2 * 30)


def test_an_end_without_the_charge():
    """As Muri has it: what was charged since the last event does not delay the end that was planned at it."""
    outcome = run([0, 10], [2, 1], [30, 50], EventTerms(charge="every event", end_has_charge=False))
    first = 10 + 2 * (30 - (10 - 1))
    assert outcome.finished == pytest.approx([first, first + 50 - (first - 10 - 2) / 2])


def test_a_move_costs_what_a_start_costs():
    outcome = run([0, 11], [1, 1], [30, 50], moves=True)
    assert outcome.log["event"].tolist().count("moved") >= 1
    stays = run([0, 11], [1, 1], [30, 50])
    assert outcome.finished[0] == pytest.approx(stays.finished[0] + 1)
    assert outcome.log.loc[outcome.log["event"] == "moved", "node"].tolist()[0] == 0


def test_a_failed_attempt_starts_anew():
    """The first attempt fails with 20 of 30 to go."""
    outcome = run([0], [2], [30], fails=[[20 / 30, -1.0]])
    assert outcome.finished.tolist() == [10 + 1 + 30]
    assert outcome.lost == pytest.approx([20])
    assert outcome.log["event"].tolist() == ["submitted", "started", "failed", "started", "finished"]


def test_speed_of_the_accelerators():
    assert run([0], [2], [30], speed=np.array([2.0])).finished.tolist() == [15]


@pytest.mark.parametrize(
    "settings", [{"step_factor": 0.0}, {"step_factor": np.nan}, {"spare": 1}, {"waits": True}], ids=str
)
def test_what_a_policy_must_not_do(settings):
    with pytest.raises(SolverError, match="policy"):
        run([0], [2], [30], **settings)


def test_no_more_on_an_accelerator_than_the_policy_says():
    run([0] * 3, [1] * 3, [5] * 3)
    with pytest.raises(SolverError, match="more than 3 on one"):
        run([0] * 4, [1] * 4, [5] * 4)
