"""What a table says of predictions: by plain loops, with answers that are missing."""

import numpy as np
import pytest

from benchmarks.families_judged import Part


def part(seed=0, draws=2, n=60):
    rng = np.random.default_rng(seed)
    truth, stratum = rng.normal(size=n), rng.integers(0, 3, n)
    group = np.array([f"family {k}" for k in rng.integers(0, 8, n)])
    rows = {name: truth + sd * rng.normal(size=(draws, n)) for name, sd in (("ours", 0.1), ("theirs", 0.3))}
    rows["some"] = np.where(rng.random(n) < 0.5, rows["theirs"], np.nan)
    return Part("A", "a title", truth, 0.3 * rng.normal(size=n), stratum, group, ("ours",), rows)


def test_means_are_over_strata_and_leave_out_what_is_missing():
    p = part()
    judged = p.judged()
    assert judged["best"] == "ours"
    for name, values in p.rows.items():
        errors = {k: [] for k in range(3)}
        r2 = {k: [[], []] for k in range(3)}
        for s in range(len(values)):
            for i, value in enumerate(values[s]):
                if np.isfinite(value):
                    errors[p.stratum[i]].append(abs(np.exp(value - p.log_seconds[i]) - 1))
                    r2[p.stratum[i]][0].append((value - p.log_seconds[i]) ** 2)
                    r2[p.stratum[i]][1].append(p.log_seconds[i] - p.log_samples[i])
        row = judged["rows"][name]
        assert row["mape"] == pytest.approx(100 * np.mean([np.mean(own) for own in errors.values()]))
        assert row["r2"] == pytest.approx(np.mean([1 - np.mean(a) / np.var(b) for a, b in r2.values()]))
        assert row["n"] == np.isfinite(values[0]).sum()


def test_ratios_compare_the_same_runs():
    judged = part().judged()["rows"]
    assert judged["ours"]["ratio"] == pytest.approx([1.0, 1.0, 1.0])
    for name in ("theirs", "some"):
        ratio, low, high = judged[name]["ratio"]
        assert 1 < low < ratio < high
    p = part()
    both = np.isfinite(p.rows["some"][0])
    fewer = Part("A", "", p.log_seconds[both], p.log_samples[both], p.stratum[both], p.group[both], ("ours",),
                 {name: values[:, both] for name, values in p.rows.items()}).judged()["rows"]  # fmt: skip
    assert fewer["some"]["ratio"][0] == pytest.approx(judged["some"]["ratio"][0])


def test_a_row_without_any_answer_is_left_out():
    p = part()
    p.rows["nothing"] = np.full_like(p.rows["ours"], np.nan)
    assert set(p.judged()["rows"]) == {"ours", "theirs", "some"}
