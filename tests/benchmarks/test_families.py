"""What a table says of predictions: by plain loops, with answers that are missing."""

import numpy as np
import pytest

from benchmarks import families_graphs
from benchmarks.families_judged import Part
from benchmarks.steps import Log
from mfcp.tasks.timing.measured_steps import MeasuredSteps
from mfcp.tasks.timing.roofline import Accelerator


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


def test_a_task_of_every_phase_has_times_on_the_clusters_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = tuple(Accelerator(1e12, 1e11, 4.0, batch) for batch in (8.0, 16.0, 32.0))

    def log(names: str, first: int, families: str) -> Log:
        shape = len(names), len(families)
        seconds = 1.0 + first + np.arange(shape[0] * shape[1], dtype=float).reshape(shape)
        steps = MeasuredSteps(first + np.arange(shape[1]), np.full(shape, 4.0), seconds)
        return Log(tuple(names), figures[: len(names)], np.array(list(families)), steps)

    infer, train = log("abc", 0, "xy"), log("d", 10, "yz")
    monkeypatch.setitem(families_graphs.STATE, "logs", {"infer": infer, "train": train})
    whole = families_graphs.every_phase("train")
    assert whole.clusters == ("d", "a", "b", "c")
    assert whole.accelerators == (figures[0], *figures)
    assert whole.families.tolist() == ["y", "z", "x", "y"]
    assert whole.steps.graph.tolist() == [10, 11, 0, 1]
    np.testing.assert_array_equal(whole.steps.seconds[:1, :2], train.steps.seconds)
    np.testing.assert_array_equal(whole.steps.seconds[1:, 2:], infer.steps.seconds)
    assert np.isnan(whole.steps.seconds).sum() == np.isnan(whole.steps.batch).sum() == 1 * 2 + 3 * 2
    alone = {"infer": infer}
    monkeypatch.setitem(families_graphs.STATE, "logs", alone)
    same = families_graphs.every_phase("infer")
    assert (same.clusters, same.steps.seconds.tolist()) == (infer.clusters, infer.steps.seconds.tolist())
