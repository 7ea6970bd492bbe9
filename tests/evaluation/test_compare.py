"""Intervals and ratios: against textbook values, under resampling, and when there is nothing to say."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mfcp.evaluation.compare import paired_bootstrap, summarise, t_interval


def rounds(shift, *, seeds=6, count=50, settings=("A", "B"), spread=0.3):
    """Two methods on the same rounds; `other` costs `shift` times the baseline, with noise common to both."""
    rng = np.random.default_rng(0)
    rows = []
    for setting in settings:
        for seed in range(seeds):
            level = np.exp(rng.normal(0, spread)) * rng.gamma(2.0, 0.1, count)
            for method, factor in (("tsm", 1.0), ("other", shift)):
                noise = 1.0 if method == "tsm" else np.exp(rng.normal(0, 0.05, count))
                rows.append(
                    pd.DataFrame(
                        {
                            "setting": setting, "method": method, "seed": seed, "round": range(count),
                            "penalised_excess": factor * level * noise,
                            "regret": factor * level * noise,
                        }
                    )
                )  # fmt: skip
    table = pd.concat(rows, ignore_index=True)
    return table, table.groupby(["setting", "method", "seed"], sort=False).mean().reset_index()


def test_t_interval_is_scipys():
    values = np.array([1.0, 2.0, 4.0, 8.0])
    low, high = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    result = t_interval(values)
    assert result["ci_low"] == pytest.approx(low)
    assert result["ci_high"] == pytest.approx(high)
    assert result["n"] == 4


def test_a_single_seed_has_no_interval():
    assert t_interval(np.array([3.0])) == {"mean": 3.0, "std": None, "ci_low": None, "ci_high": None, "n": 1}


def test_ratio_recovers_a_known_factor_and_its_interval_holds_it():
    summary = summarise(*rounds(0.8), bootstrap=300)
    for setting in ("A", "B", "pooled"):
        ratio = summary[setting]["other"]["vs_tsm"]
        assert ratio["ci_low"] < 0.8 < ratio["ci_high"]
        assert ratio["ci_high"] - ratio["ci_low"] < 0.1
        assert summary[setting]["other"]["minus_tsm"]["ci_high"] < 0
    assert summary["pooled"]["other"]["vs_tsm"]["n"] == 12


def test_the_baseline_against_itself_is_one_without_doubt():
    own = summarise(*rounds(0.8), bootstrap=100)["A"]["tsm"]["vs_tsm"]
    assert (own["mean"], own["ci_low"], own["ci_high"]) == (1.0, 1.0, 1.0)


def test_intervals_are_paired():
    """Seeds differ a lot, methods on one seed little: an unpaired interval would be many times wider."""
    table, seeds = rounds(0.9, spread=1.5)
    paired = summarise(table, seeds, bootstrap=300)["pooled"]["other"]["vs_tsm"]
    level = summarise(table, seeds, bootstrap=300)["pooled"]["tsm"]["penalised_excess"]
    relative_width = (level["ci_high"] - level["ci_low"]) / level["mean"]
    assert paired["ci_high"] - paired["ci_low"] < 0.2 * relative_width


def test_a_ratio_of_negative_regrets_is_left_out():
    table, seeds = rounds(0.8)
    table["regret"] -= 10.0
    assert "regret_vs_tsm" not in summarise(table, seeds, bootstrap=100)["A"]["other"]


def test_without_the_baseline_there_are_no_ratios():
    table, seeds = rounds(0.8)
    summary = summarise(table[table["method"] == "other"], seeds[seeds["method"] == "other"], bootstrap=100)
    assert set(summary["A"]) == {"other"}
    assert "vs_tsm" not in summary["A"]["other"]


def test_bootstrap_draws_rounds_within_seeds_of_both_methods_together():
    values = np.repeat(np.arange(12.0).reshape(3, 4, 1), 2, axis=2)
    values[..., 1] *= 2
    means = paired_bootstrap(values, 200)
    np.testing.assert_allclose(means[:, 1], 2 * means[:, 0])
    assert means[0, 0] == values[..., 0].mean()
    between = values[..., 0].mean(axis=1).var() / 3
    within = values[..., 0].var(axis=1).mean() / 12
    assert means[1:, 0].var() == pytest.approx(between + within, rel=0.35)
