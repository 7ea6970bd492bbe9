"""Intervals and ratios: against textbook values, under resampling, and when there is nothing to say."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mfcp.errors import DataError
from mfcp.evaluation.compare import draw_blocks, headline, leading, resample, summarise, t_interval
from mfcp.evaluation.metrics import per_seed


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
                            "makespan": 1.0 + factor * level * noise,
                            "optimal_makespan": 1.0,
                        }
                    )
                )  # fmt: skip
    table = pd.concat(rows, ignore_index=True)
    return table, per_seed(table)


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


def test_draws_match_the_closed_form_of_three_levels():
    """Variance of a mean whose settings, seeds and rounds are drawn: what varies at each level, by its number."""
    G, S, R = 4, 3, 5
    rng = np.random.default_rng(1)
    values = rng.normal(size=(G, 1, 1, 1)) + rng.normal(size=(G, S, 1, 1)) + rng.normal(size=(G, S, R, 1))
    means = draw_blocks(values, 20_000, np.random.default_rng(0)).mean(axis=1)[:, 0]
    settings = values.mean(axis=(1, 2)).var() / G
    seeds = values.mean(axis=2).var(axis=1).mean() / (G * S)
    rounds = values.var(axis=2).mean() / (G * S * R)
    assert means.mean() == pytest.approx(values.mean(), abs=4 * means.std() / 20_000**0.5)
    assert means.var() == pytest.approx(settings + seeds + rounds, rel=0.05)


def test_what_is_stacked_is_drawn_together():
    values = np.random.default_rng(0).normal(size=(2, 3, 4, 1))
    means = draw_blocks(np.concatenate([values, 2 * values], axis=3), 50, np.random.default_rng(0))
    np.testing.assert_allclose(means[..., 1], 2 * means[..., 0], atol=1e-12)


def test_a_draw_of_a_mean_stays_within_what_was_drawn():
    """Weights of a seed's rounds add to one, and every block comes from one seed."""
    values = np.repeat(np.arange(6.0).reshape(2, 3, 1, 1), 4, axis=2)
    means = draw_blocks(values, 100, np.random.default_rng(0))
    assert set(means.round(9).ravel()) == set(range(6))
    for group in means.reshape(100, 2, 3):  # seeds of one drawn setting are that setting's
        assert all(len({int(v) // 3 for v in own}) == 1 for own in group.round())


def test_settings_that_differ_widen_the_pooled_interval():
    """Two settings a factor of four apart: as many independent seeds would give an interval that is far too narrow."""
    table, _ = rounds(0.9, seeds=8, settings=("A", "B", "C", "D"), spread=0.1)
    table.loc[table["setting"].isin(["C", "D"]), ["penalised_excess", "regret"]] *= 4
    own = summarise(table, per_seed(table), bootstrap=500)["pooled"]["tsm"]["penalised_excess"]
    unclustered = t_interval(per_seed(table).query("method == 'tsm'")["penalised_excess"].to_numpy())
    assert own["mean"] == pytest.approx(unclustered["mean"])
    assert own["ci_high"] - own["ci_low"] > 1.5 * (unclustered["ci_high"] - unclustered["ci_low"])


def test_ratios_of_any_two_with_their_p_value():
    table, _ = rounds(0.8)
    sample = resample(table, 400)
    ratio = sample.ratio("other", "tsm", "penalised_excess")
    back = sample.ratio("tsm", "other", "penalised_excess")
    assert ratio["mean"] * back["mean"] == pytest.approx(1.0)
    assert ratio["p"] == back["p"] == 1 / 400  # the floor: no resample is on the other side of 1
    same = resample(rounds(1.0)[0], 400).ratio("other", "tsm", "penalised_excess")
    assert same["ci_low"] < 1 < same["ci_high"]
    assert same["p"] > 0.05


def test_a_difference_to_a_share_of_another_method():
    """What a goal of 0.9 asks of a method at 0.8, and of one at 1.0; regret below zero needs no ratio."""
    for factor, met in ((0.8, True), (1.0, False)):
        table, _ = rounds(factor)
        sample = resample(table, 400)
        found = sample.difference("other", "tsm", "penalised_excess", share=0.9)
        means = [table[table["method"] == name]["penalised_excess"].mean() for name in ("other", "tsm")]
        assert found["mean"] == pytest.approx(means[0] - 0.9 * means[1])
        assert found["ci_low"] < found["mean"] < found["ci_high"]
        assert (found["ci_high"] < 0) == met
        assert found["p"] < 0.05
    same = resample(rounds(1.0)[0], 400).difference("other", "tsm", "penalised_excess")
    assert same["p"] > 0.05


def test_a_ratio_of_sums_is_formed_per_seed():
    """Relative regret and its ratio agree with the table of seeds, whose makespans have different levels."""
    table, _ = rounds(0.8)
    for seed in range(6):
        table.loc[table["seed"] == seed, ["makespan", "optimal_makespan"]] *= 10.0**seed
    seeds = per_seed(table)
    mean = seeds.groupby("method")["relative_regret"].mean()
    sample = resample(table, 100)
    assert sample.interval("other", "relative_regret")["mean"] == pytest.approx(mean["other"])
    ratio = sample.ratio("other", "tsm", "relative_regret")
    assert ratio["mean"] == pytest.approx(mean["other"] / mean["tsm"])
    assert ratio["ci_low"] < 0.8 < ratio["ci_high"]


def test_the_order_of_a_table_does_not_matter():
    table, _ = rounds(0.8)
    shuffled = table.sample(frac=1, random_state=0)
    one, two = (resample(t, 50).ratio("other", "tsm", "regret")["mean"] for t in (table, shuffled))
    assert one == pytest.approx(two)


def test_methods_on_different_rounds_are_refused():
    table, _ = rounds(0.8)
    with pytest.raises(DataError, match="evaluate all of them on the same"):
        resample(table.iloc[:-1], 50)


def test_the_leading_numbers_of_a_method_say_how_much_and_how_surely():
    summary = summarise(*rounds(0.5), bootstrap=200)
    found, ratio = leading(summary)["other"], summary["pooled"]["other"]["vs_tsm"]
    assert found["excess_vs_tsm"] == ratio["mean"]
    assert found["excess_vs_tsm.low"] <= found["excess_vs_tsm"] <= found["excess_vs_tsm.high"]
    assert found["excess_vs_tsm.p"] == ratio["p"]
    assert found["penalised_excess"] == summary["pooled"]["other"]["penalised_excess"]["mean"]


def test_the_headline_is_a_ratio_a_method():
    table, seeds = rounds(0.5)
    found = headline(summarise(table, seeds, bootstrap=200))
    assert found["tsm"] == 1.0
    assert found["other"] == pytest.approx(0.5, abs=0.02)
    one, few = rounds(0.5, settings=("A",))
    assert set(headline(summarise(one, few, bootstrap=200))) == {"tsm", "other"}


def test_no_interval_leaves_what_a_metric_can_be():
    """Two seeds as different as can be: their t interval is wider than all that the metric can be."""
    table, _ = rounds(2.0, seeds=2, settings=("A",))
    first = table["seed"] == 0
    table.loc[first, "penalised_excess"] = 1e-3
    table["reliability"] = np.where(first, 0.1, 0.9)
    found = summarise(table, per_seed(table), bootstrap=100)["A"]["other"]
    assert found["penalised_excess"]["ci_low"] == 0
    assert found["penalised_excess"]["ci_high"] > 2
    assert (found["reliability"]["ci_low"], found["reliability"]["ci_high"]) == (0, 1)
