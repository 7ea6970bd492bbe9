"""Measurements that are worth making: only cells that can be, in order, for less than they save."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from platform_log import small_log

from mfcp.errors import SettingsError
from mfcp.predictors.calibration import Calibration
from mfcp.release.decision import decide
from mfcp.release.measurements import Measuring, worth_measuring, write_answer_sheet
from mfcp.release.observing import evidence_of

NEW = {name: own for name, own in small_log(5, seed=9, start=500).items() if name in ("tasks", "nodes", "edges")}
pytestmark = pytest.mark.xdist_group("release")  # one worker makes what they share


@pytest.fixture(scope="module")
def unsure(release):
    """The release as if it were off by much."""
    spread = Calibration(*(np.full((1, 3), sd) for sd in (0.5, 0.4, 0.01)))
    return replace(release, trained=replace(release.trained, calibration=spread))


FREE = Measuring(start_s=0.0, steps=1)


def asked(release, measuring, **wish):
    return worth_measuring(release, NEW, decide(release, NEW, **wish), measuring)


def test_they_save_more_than_they_take_and_the_best_is_first(unsure):
    found = asked(unsure, FREE)
    assert found
    assert found[0].saves_s == max(one.saves_s for one in found)
    assert all(one.saves_s > one.takes_s > 0 for one in found)
    units = [one.saves_s / one.saves for one in found]
    assert units == pytest.approx([units[0]] * len(found))
    assert [vars(one) for one in asked(unsure, Measuring(most=1, start_s=0.0, steps=1))] == [vars(found[0])]


def test_a_step_takes_its_share_of_the_task(unsure):
    """8 of 10,000 samples: the predicted seconds over 1,250, after the start."""
    (one, *_) = asked(unsure, Measuring(start_s=0.01, steps=2))
    belief = decide(unsure, NEW).belief
    task = NEW["tasks"]["task_id"].tolist().index(one.task_id)
    seconds = belief.T[0, unsure.cluster_id.index(one.cluster_id), task]
    assert one.takes_s == pytest.approx(0.01 + 2 * seconds * 8 / 1e4)


def test_dear_ones_and_small_ones_are_not_made(unsure):
    assert not asked(unsure, Measuring(start_s=1e9))
    assert not asked(unsure, Measuring(worth=0.99, start_s=0.0))
    every, some = asked(unsure, FREE), asked(unsure, Measuring(worth=0.01, start_s=0.0, steps=1))
    assert len(some) < len(every)
    assert all(one.saves > 0.01 for one in some)


def test_a_cluster_that_is_busy_is_not_waited_for(unsure):
    assert {one.cluster_id for one in asked(unsure, FREE)} & {"a", "b"}
    busy = asked(unsure, FREE, backlog={"a": 1e6, "b": 1e6})
    assert not {one.cluster_id for one in busy} & {"a", "b"}


def test_on_the_clusters_at_hand_alone(unsure):
    found = asked(unsure, FREE, clusters=["a", "b"])
    assert found
    assert {one.cluster_id for one in found} <= {"a", "b"}


def test_what_was_measured_is_not_asked_for_again(unsure):
    first = asked(unsure, FREE)[0]
    runs = pd.DataFrame(
        [{"run_id": "m", "task_id": first.task_id, "cluster_id": first.cluster_id, "step_time_s": 1.0,
          "batch_size": 8, "status": "succeeded"}]
    )  # fmt: skip
    after = asked(unsure, FREE, evidence=evidence_of(unsure, NEW, runs))
    assert (first.task_id, first.cluster_id) not in {(one.task_id, one.cluster_id) for one in after}


def test_the_sheet_is_filled_in_and_read_back(unsure, tmp_path):
    found = asked(unsure, FREE)
    write_answer_sheet(tmp_path / "ask.csv", NEW, found)
    sheet = pd.read_csv(tmp_path / "ask.csv")
    assert sheet["task_id"].tolist() == [one.task_id for one in found]
    assert sheet["step_time_s"].isna().all()
    assert not len(evidence_of(unsure, NEW, sheet).cells.cluster)  # nothing was filled in
    sheet.loc[0, "step_time_s"] = 0.5
    assert np.isfinite(evidence_of(unsure, NEW, sheet).cells.residual).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"most": 0}, "at least 1, got 0"), ({"worth": 1.0}, r"in \[0, 1\), got 1.0"), ({"worth": -0.1}, "got -0.1"),
     ({"start_s": -1.0}, "measure-start"), ({"steps": 0}, "measure-steps")],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(SettingsError, match=message):
        Measuring(**wrong)
