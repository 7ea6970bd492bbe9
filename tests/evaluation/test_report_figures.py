"""Figures of the report: every method and task is in them, and the same numbers give the same bytes."""

import re

from mfcp.evaluation.report_figures import calibration_figure, error_figure, gantt_figure

PREDICTIONS = {
    "tsm": {"factor": 1.4, "factor_95": 6.0, "calibration": [(0.5, 0.6), (0.8, 0.7), (0.95, 0.9)]},
    "ours": {"factor": 1.2, "factor_95": 2.5, "calibration": [(0.55, 0.5), (0.85, 0.86), (0.97, 0.98)]},
}
EXAMPLE = {
    "baseline": {"cluster": [0, 0, 1], "seconds": [10.0, 30.0, 5.0], "reliability": 0.9},
    "method": {"cluster": [0, 1, 1], "seconds": [10.0, 20.0, 5.0], "reliability": 0.95},
}


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_errors_name_every_method_with_its_numbers():
    told = texts(error_figure(PREDICTIONS))
    assert {"tsm", "ours", "1.40, 6.00", "1.20, 2.50"} <= set(told)


def test_calibration_names_the_methods():
    assert {"tsm", "ours"} <= set(texts(calibration_figure(PREDICTIONS)))


def test_a_round_shows_both_plans_and_every_cluster():
    told = texts(gantt_figure(EXAMPLE, ["fast", "slow"], ("tsm", "ours")))
    assert "tsm: 40 s, success 0.900" in told
    assert "ours: 25 s, success 0.950" in told
    assert told.count("fast") == 2
    assert {"1", "2", "3"} <= set(told)


def test_names_are_no_mathematics_and_leave_room():
    names = [r"$\bad{$", "$x^2$", "a$b", "任务" * 60]
    example = {role: plan | {"cluster": [0, 2, 3]} for role, plan in EXAMPLE.items()}
    told = texts(gantt_figure(example, names, ("$tsm$", "ours")))
    assert {*names[:3], "任务" * 20 + "…", "$tsm$: 30 s, success 0.900"} <= set(told)


def test_equal_numbers_are_equal_bytes_and_names_cannot_be_markup():
    figures = [gantt_figure(EXAMPLE, ["<b>", "slow"], ("tsm", "ours")) for _ in range(2)]
    assert figures[0] == figures[1]
    assert "<b>" not in figures[0]
    assert error_figure(PREDICTIONS) == error_figure(PREDICTIONS)
