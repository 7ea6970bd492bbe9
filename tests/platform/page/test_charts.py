"""Charts: every task once, one after another, on one scale."""

import numpy as np
import pytest

from mfcp.platform.page.charts import draw

PLAN = {"task_id": ["p", "q", "r"], "cluster_id": ["a", "b", "a"], "seconds": np.array([10.0, 40.0, 20.0])}


def test_bars_follow_each_other_and_lanes_end_when_their_tasks_do():
    chart = draw(["a", "b", "c"], **PLAN, bound=38.0)
    a, b, c = chart.lanes
    assert [(bar.task_id, bar.start, bar.width) for bar in a.bars] == [("p", 0.0, 25.0), ("r", 25.0, 50.0)]
    assert [bar.kind for bar in a.bars] == ["even", "odd"]
    assert (a.seconds, b.seconds, c.seconds) == (30.0, 40.0, 0.0)
    assert (c.bars, chart.makespan, chart.span) == ((), 40.0, 40.0)
    assert chart.bound == pytest.approx(95.0)


def test_a_backlog_comes_first_where_there_is_a_task():
    chart = draw(["a", "b", "c"], **PLAN, backlog={"a": 70.0, "c": 500.0}, moved=["q"])
    a, b, c = chart.lanes
    assert (a.wait, a.bars[0].start, a.seconds) == (70.0, 70.0, 100.0)
    assert (c.wait, c.seconds, chart.makespan) == (0.0, 0.0, 100.0)
    assert b.bars[0].kind == "moved"


def test_a_longer_span_shrinks_the_bars_and_a_line_at_the_end_is_still_seen():
    assert draw(["a", "b"], **PLAN, span=80.0).lanes[1].bars[0].width == 50.0
    assert draw(["a", "b"], **PLAN, bound=40.0).bound == 99.8


def test_a_cluster_that_is_known_no_more_has_a_lane():
    assert [lane.cluster_id for lane in draw(["b"], **PLAN).lanes] == ["b", "a"]


def test_a_plan_of_nothing_is_empty():
    chart = draw(["a"], [], [], np.zeros(0))
    assert (chart.makespan, chart.lanes[0].bars) == (0.0, ())
