"""The table of metrics is complete, and its levels are what they are called."""

import numpy as np

from mfcp.evaluation.metric_table import LEVELS, METRICS, RELATIVE
from mfcp.evaluation.plots import FIG4
from mfcp.evaluation.table import COLUMNS


def test_what_refers_to_a_metric_refers_to_one_of_the_table():
    ratios = {"vs_tsm", "regret_vs_tsm"}
    assert {*FIG4, *RELATIVE, *LEVELS, *(metric for _, metric, *_ in COLUMNS)} - ratios <= set(METRICS)
    assert all(METRICS[name].meaning and METRICS[name].unit for name in METRICS)


def test_levels_are_the_share_of_rounds_that_miss_and_what_they_miss():
    missing = np.array([0.0, 0.02, 0.0, 0.06])
    assert LEVELS["regret_equal_violation"](missing) == 0.5
    assert LEVELS["regret_equal_shortfall"](missing) == 0.02
