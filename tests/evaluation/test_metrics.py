"""Margins that bring methods to the baseline's level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy import toy_setting, toy_study

from mfcp.evaluation.metric_table import LEVELS, METRICS
from mfcp.evaluation.metrics import (
    EvaluateSettings,
    Reference,
    _missing,
    equalising_margin,
    evaluate,
    log_time_errors,
    round_metrics,
)
from mfcp.methods.base import FinetuneSettings, Method, register_members
from mfcp.methods.pretrain import PretrainSettings, pretrain
from mfcp.predictors.heads import HeadTraining
from mfcp.predictors.linear import Linear
from mfcp.study.reference import solved_setting
from mfcp.study.setting import RoundSettings

MARGINS = EvaluateSettings().margins


def mean(missing):
    return float(missing.mean())


@given(st.lists(st.integers(0, 6), min_size=41, max_size=41), st.integers(-1, 7))
def test_of_falling_levels_bisection_finds_the_closest(levels, target):
    falling = dict(zip(sorted(MARGINS), sorted(levels, reverse=True), strict=True))
    asked = []

    def missing(margin):
        asked.append(margin)
        return np.array([float(falling[margin])])

    found = equalising_margin(missing, mean, float(target), MARGINS)
    assert abs(falling[found] - target) == min(abs(level - target) for level in falling.values())
    if falling[found] == target:
        assert abs(found) == min(abs(margin) for margin, level in falling.items() if level == target)
    assert len(set(asked)) <= 7


@given(st.lists(st.integers(0, 6), min_size=41, max_size=41), st.integers(-1, 7))
def test_levels_that_rise_in_places_end_no_further_than_without_a_margin(levels, target):
    any_ = dict(zip(sorted(MARGINS), levels, strict=True))
    found = equalising_margin(lambda margin: np.array([float(any_[margin])]), mean, float(target), MARGINS)
    assert abs(any_[found] - target) <= abs(any_[0.0] - target)


def test_without_other_margins_there_is_none():
    assert equalising_margin(lambda margin: np.ones(3), mean, 0.5, ()) == 0.0


def test_methods_are_brought_to_the_level_of_the_baseline():
    register_members()
    setting = solved_setting(toy_study(), "A", RoundSettings(tasks=3, validation_rounds=150), price=4.0)
    base = pretrain(setting, PretrainSettings(predictor=Linear(), training=HeadTraining(epochs=20)))
    rows = {"tsm": {"kind": "two_stage", "loss": "time"}, "bold": {"kind": "two_stage", "rule": "priced"}}
    trained = {label: Method.parse(row).fit(setting, base, FinetuneSettings()) for label, row in rows.items()}
    rounds, _ = evaluate(setting, trained, EvaluateSettings(rounds=20))
    own = rounds[rounds["method"] == "tsm"]
    assert (own["makespan_equal_violation"] == own["makespan"]).all()
    nearer = []
    for name, level in LEVELS.items():
        for of_tsm, of_bold in zip(*(_missing(trained[label], setting) for label in ("tsm", "bold")), strict=True):
            target = level(of_tsm(0.0))
            margin = equalising_margin(of_bold, level, target, MARGINS)
            before, after = (abs(level(of_bold(each)) - target) for each in (0.0, margin))
            assert after <= before
            nearer.append(after < before)
        bold = rounds[rounds["method"] == "bold"]
        assert (bold[f"makespan_equal_{name.rpartition('_')[2]}"] > 0).all()
    assert any(nearer)


def test_evaluation_covers_every_metric_and_is_zero_for_an_oracle():
    setting = toy_setting()
    base = pretrain(setting, PretrainSettings(predictor=Linear(), training=HeadTraining(epochs=20), calibrated=()))
    trained = Method.parse({"kind": "two_stage", "loss": "time"}).fit(setting, base, FinetuneSettings())
    rounds, seeds = evaluate(setting, {"tsm": trained}, EvaluateSettings(rounds=20))
    assert len(rounds) == 20 * len(setting.seeds)
    assert (rounds["penalised_excess"] >= 0).all()
    reference = Reference.of(setting, 20)
    oracle = round_metrics(reference.optimal, reference, price=4.0)
    assert (oracle["regret"] == 0).all()
    assert oracle["shortfall"].max() == 0
    assert set(METRICS) <= set(seeds.columns)


def test_errors_of_log_time_are_of_test_tasks_and_apart_from_what_clusters_share():
    """Predictions off by a factor per task, and on one cluster by another: by loops over tasks and clusters."""
    setting = toy_setting()
    rng = np.random.default_rng(0)
    n = setting.T.shape[1]
    error = rng.normal(0, 0.5, (2, 1, n)) + rng.normal(0, 0.2, (2, 3, n))

    class Model:
        def predict(self, own):
            return np.where(own.allowed, own.T_true, 1.0) * np.exp(error), None

    found = log_time_errors(setting, {"model": Model()})
    for s in range(2):
        every, own, freedom = [], [], 0
        for j in np.flatnonzero(setting.split[s] == 2):
            seen = error[s, setting.allowed[:, j], j]
            every += list(seen)
            own += list(seen - seen.mean()) if len(seen) else []
            freedom += max(len(seen) - 1, 0)
        row = found.iloc[s]
        assert row["log_time_rms"] == pytest.approx(np.sqrt(np.mean(np.square(every))))
        assert row["log_time_own"] == pytest.approx(np.sqrt(np.sum(np.square(own)) / freedom))
