"""Networks that each leave out a fold: their mean predicts, and a task is predicted by the one that left it out."""

import numpy as np
import pytest
from tasks.timing.test_operator_times import MACHINES, QUICK, models, truth

from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.timing.cross_fitting import cross_fit
from mfcp.tasks.timing.operator_times import OperatorTimes

SETTINGS = QUICK.model_copy(update={"members": 3, "epochs": 6})
FOLD = np.where(np.arange(96) < 72, np.arange(96) % 3, -1)

pytestmark = pytest.mark.xdist_group("timing")


@pytest.fixture(scope="module")
def graphs():
    return build_graphs(*models(96))


@pytest.fixture(scope="module")
def steps(graphs):
    return truth(graphs)


@pytest.fixture(scope="module")
def fitted(graphs, steps):
    return cross_fit(graphs, MACHINES, steps, FOLD, steps.batch, seed=4, settings=SETTINGS)


def test_a_task_is_predicted_by_a_fit_without_its_fold(graphs, steps, fitted):
    rest = steps.select((FOLD >= 0) & (FOLD != 1))
    alone = OperatorTimes.fit(graphs, MACHINES, rest, seed=4001, settings=SETTINGS.model_copy(update={"members": 1}))
    own = np.flatnonzero(FOLD == 1)
    expected = alone.log_seconds(graphs.distinct.take(own), steps.batch[:, own])
    np.testing.assert_array_equal(fitted[1][:, own], expected)
    assert (fitted[1][:, FOLD < 0] == 0).all()


def test_tasks_without_a_fold_are_never_looked_at(graphs, steps, fitted):
    spoiled = steps.seconds * np.where(FOLD < 0, 100.0, 1.0)
    other = type(steps)(steps.graph, steps.batch, spoiled)
    again, left_out = cross_fit(graphs, MACHINES, other, FOLD, steps.batch, seed=4, settings=SETTINGS)
    np.testing.assert_array_equal(left_out, fitted[1])
    unseen = graphs.distinct.take(np.flatnonzero(FOLD < 0))
    np.testing.assert_array_equal(again.log_seconds(unseen), fitted[0].log_seconds(unseen))


def test_all_of_them_together_predict_unseen_graphs(graphs, steps, fitted, tmp_path):
    """A mean of networks with rooflines of all folds, which goes to the disk as any other."""
    whole, unseen = fitted[0], np.flatnonzero(FOLD < 0)
    operators = graphs.distinct.take(unseen)
    assert len(whole.members) == 3
    predicted = whole.log_seconds(operators, steps.batch[:, unseen])
    assert np.abs(predicted - np.log(steps.seconds[:, unseen])).mean() < 0.25
    whole.save(tmp_path / "times.safetensors")
    back = OperatorTimes.load(tmp_path / "times.safetensors")
    np.testing.assert_array_equal(back.log_seconds(operators, steps.batch[:, unseen]), predicted)


def test_progress_is_told_once_an_epoch_and_network(graphs, steps):
    told = []
    quick = SETTINGS.model_copy(update={"epochs": 2})
    cross_fit(graphs, MACHINES, steps, FOLD, steps.batch, seed=0, settings=quick, advance=lambda: told.append(1))
    assert len(told) == 6
