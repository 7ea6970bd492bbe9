"""Losses from a file, and runs whose jobs end when they have converged."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import PrivateAttr

from mfcp.errors import DataError, SettingsError
from mfcp.simulator.batches import Batches
from mfcp.simulator.beliefs import GivenDurations, LossDurations, TrueDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.policies.deciding import Allotment, Deciding
from mfcp.simulator.qore.loss_curves import converged_at, remaining_epochs
from mfcp.simulator.qore.training_losses import TrainingLosses
from mfcp.simulator.simulation import import_policies, simulate
from mfcp.simulator.traces.loss_table import read_losses

import_policies()
EPOCH = np.arange(1.0, 101.0)
JOBS = Jobs(
    np.array(["a", "b"]), np.zeros(2), np.ones(2, np.int64), np.full(2, 100.0), np.full(2, 7.0),
    kind=np.array(["x", "y"]), deadline=np.full(2, 1e4),
)  # fmt: skip
LOSSES = TrainingLosses((1 / EPOCH + 0.5, EPOCH**-0.3), np.array([0.01, 0.0]), np.array([0, 1]))


class Watching(Deciding):
    """Runs all jobs as they ask, and keeps what is left of the first."""

    _left: list[float] = PrivateAttr(default_factory=list)

    def decide(self, demand):
        if demand.job[0] == 0:
            self._left.append(demand.left[0])
        return Allotment(np.zeros(len(demand.job), int), demand.now + 210.0)


def table(tmp_path, text):
    path = tmp_path / "losses.csv"
    path.write_text(text)
    return path


def test_rows_of_a_model_are_its_losses_in_the_order_of_epochs(tmp_path):
    text = "model,epoch,loss,threshold\ny,2,0.5,0.2\nx,1,3,0.1\ny,1,0.75,0.2\ny,3,0.25,0.2\n"
    losses = read_losses(table(tmp_path, text), JOBS)
    assert [losses.curves[row].tolist() for row in losses.of] == [[3], [0.75, 0.5, 0.25]]
    assert losses.threshold[losses.of].tolist() == [0.1, 0.2]
    assert read_losses(table(tmp_path, "job,epoch,loss\na,1,1\nb,1,2\n"), JOBS).threshold.tolist() == [0.01, 0.01]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job,loss\na,1\n", "no column epoch; there are job, loss"),
        ("job,epoch,loss\na,1,1\n", "no row whose job is 'b', which job b of the trace has"),
        ("job,epoch,loss\na,1,1\nb,1,0\n", "row 2: loss is 0; expected a number above 0"),
        ("job,epoch,loss\na,1,1\nb,1,nan\n", "row 2: loss is"),
        ("job,epoch,loss\na,1,1\na,3,1\nb,1,1\n", "row 2: epoch is 3 and the one before it of 'a' 1; expected 1, 2, 3"),
        ("job,epoch,loss\na,1,1\na,1,2\nb,1,1\n", "row 2: epoch is 1 and the one before it of 'a' 1"),
        ("job,epoch,loss\na,1,1\nb,2,1\n", "row 2: epoch is 2 and the one before it of 'b' 0"),
        ("job,epoch,loss\na,1.5,1\nb,1,1\n", "row 1: epoch is '1.5', expected a whole number of 1 or more"),
        ("job,epoch,loss,threshold\na,1,1,0.1\na,2,1,0.2\nb,1,1,0.1\n", "row 2: threshold is 0.2, and 0.1 in another"),
        ("job,epoch,loss,threshold\na,1,1,0.1\nb,1,1,1\n", "row 2: threshold is '1', expected a number of 0 or more"),
        ("job,epoch,loss\n", "no rows"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_told_by_its_row(tmp_path, text, said):
    with pytest.raises(DataError) as told:
        read_losses(table(tmp_path, text), JOBS)
    assert said in str(told.value)


@pytest.mark.parametrize("policy", ["fifo", "max_min", "optimus", "qore_dl"])
def test_jobs_end_when_they_have_converged_whatever_the_policy(policy):
    ends = np.array([converged_at(LOSSES.curves[0], 0.01), 100.0])
    assert ends[0] < 60
    settings = {"adjusts": False, "sized": False} if policy == "qore_dl" else {}
    ways = Configurations.rigid(JOBS, Cluster.parse("2"))
    outcome = simulate(JOBS, Cluster.parse("2"), Policy.build(policy, **settings), losses=LOSSES, configurations=ways)
    assert outcome.finished == pytest.approx(ends * 7.0)


def test_a_belief_from_losses_lies_between_all_epochs_and_the_truth():
    """What is believed to be left of the first job, every 210 s, which is thirty epochs."""
    long, seen = replace(LOSSES, threshold=np.array([0.0003, 0.0])), {}
    for belief in (TrueDurations(), LossDurations(), GivenDurations(seconds=(700.0, 700.0))):
        policy = Watching()
        simulate(JOBS, Cluster.parse("2"), policy, losses=long, belief=belief)
        seen[belief.name] = policy._left
    end = converged_at(long.curves[0], 0.0003)
    assert 90 < end < 100
    assert seen["oracle"] == pytest.approx([end, end - 30, end - 60, end - 90])
    assert seen["predicted"] == pytest.approx([100, 70, 40, 10])
    told = [remaining_epochs(long.curves[0][:done], 0.0003, 100) for done in (60, 90)]
    assert seen["losses"] == pytest.approx([100, 70, *told])
    assert abs(told[0] - (end - 60)) < 5


@pytest.mark.parametrize(
    "policy", ["slaq", "slaq_on_hosts", "optimus_on_hosts", "qore_dl", "mlfs", "srsf", "sjf", "max_min", "fifo", "las"]
)
def test_who_decides_anew_takes_a_belief_from_losses(policy):
    outcome = simulate(JOBS, Cluster.parse("3"), Policy.build(policy), losses=LOSSES, belief=LossDurations(), seed=1)
    assert np.isfinite(outcome.finished).all()


def test_an_order_by_what_is_left_follows_what_is_told():
    """On one accelerator: the second job is shorter than the first, which shows once the first has trained a while."""
    losses = TrainingLosses((1 / EPOCH + 0.5, EPOCH**-0.3), np.array([0.01, 0.0]), np.array([1, 0]))
    jobs = replace(JOBS, submit=np.array([0.0, 280.0]), iterations=np.array([100.0, 80.0]))
    end = 7.0 * 0.8 * converged_at(losses.curves[0], 0.01)
    srtf, one = Policy.build("srtf"), Cluster.parse("1")
    told, known = (
        simulate(jobs, one, srtf, losses=losses, belief=belief).finished.tolist()
        for belief in (LossDurations(), TrueDurations())
    )
    # At 280 s both are believed to need 420 and 560 s; that the second will converge sooner is seen only as it trains.
    assert told == pytest.approx([700, 700 + end])
    assert known == pytest.approx([700 + end, 280 + end])


def test_rows_about_models_need_a_trace_that_names_them(tmp_path):
    with pytest.raises(DataError, match="rows are about models, and the trace has no column model; name jobs by"):
        read_losses(table(tmp_path, "model,epoch,loss\nx,1,1\n"), replace(JOBS, kind=np.array(["", ""])))


def test_quality_goes_where_curves_say_that_losses_fall():
    """Two jobs after some 17 epochs: the loss of the first is as low as it gets, that of the second is not."""
    flat, falling = np.where(EPOCH < 5, 2.0 / EPOCH, 0.5), 2.0 / EPOCH
    losses = TrainingLosses((flat, falling), np.zeros(2), np.array([0, 1]))
    outcome = simulate(
        JOBS, Cluster.parse("8"), Policy.build("slaq", every_s=35.0), losses=losses, belief=LossDurations()
    )
    log = outcome.log[outcome.log["time_s"] <= 35.0]
    assert log.groupby("job")["gpus"].last().tolist() == [1, 4]


def test_what_does_not_go_with_losses_is_told():
    with pytest.raises(
        SettingsError, match="belief 'losses' changes while jobs train, and 'easy' reserves by an order"
    ):
        simulate(JOBS, Cluster.parse("2"), Policy.build("easy"), losses=LOSSES, belief=LossDurations())
    with pytest.raises(SettingsError, match=r"told from losses of training; give them \(--losses FILE\)"):
        simulate(JOBS, Cluster.parse("2"), Policy.build("optimus"), belief=LossDurations())
    one = np.zeros(1, np.int64)
    batches = Batches(one, one, one + 1, np.ones(1), one + 10, one)
    with pytest.raises(SettingsError, match="give losses or batches, not both"):
        simulate(JOBS, Cluster.parse("2"), Policy.build("max_min"), losses=LOSSES, batches=batches)
