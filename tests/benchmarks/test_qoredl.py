"""Qore-DL's table: its interval draws what was left out, whole; and it is of all that a file measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import qoredl
from benchmarks.qoredl import GIVEN, SECONDS, WORK, decide, interval, read, score_file
from mfcp.arrays import Floats


def test_groups_are_drawn_whole() -> None:
    """Of two groups a quarter of the draws has the first alone, and a quarter the second."""
    groups = np.repeat([7, 9], [10, 2])
    model = np.where(groups == 7, 0.2, 0.6) + np.tile([-0.1, 0.1], 6)
    assert interval(model, np.full(12, 0.4), groups) == pytest.approx((3.2 / 4.8, 0.5, 1.5))


def test_a_decision_of_the_adjuster_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    """On times that more CPU shortens: late jobs change their size."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.exp(rng.uniform(0, 3, (60, len(WORK)))), rng.uniform(0.5, 1.3, (60, len(GIVEN)))])
    decide(x, x[:, 0] / x[:, -2])
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 2
    for load, line in zip(("0.3", "0.6"), told, strict=True):
        assert line.startswith(f"100 running jobs, load {load}: ")
        assert int(line.split(": ")[1].split()[0]) > 0


def test_peaks_are_judged_where_a_file_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({name: rng.uniform(1, 2, 60) for name in (*WORK, *GIVEN)})
    rows[SECONDS], rows["status"] = rows["batch_size"] / rows["cpu_share"], "succeeded"
    rows.to_parquet(tmp_path / "plain.parquet")
    rows.assign(memory_peak=100 * rows["batch_size"]).to_parquet(tmp_path / "peaks.parquet")
    assert list(read(tmp_path / "plain.parquet")[1]) == [SECONDS]
    x, measured = read(tmp_path / "peaks.parquet")
    assert list(measured) == [SECONDS, "memory_peak"]
    monkeypatch.setattr(qoredl, "LEARNERS", {"ours": lambda x, values, asked: 110.0 * asked[:, 0]})
    found = score_file(x, measured, tmp_path / "peaks.parquet")
    mape = {row["target"]: row["value"] for row in found if row["metric"] == "mape"}
    assert mape["memory_peak"] == pytest.approx(0.1)
    assert {row["target"] for row in score_file(x, measured, tmp_path / "plain.parquet")} == {SECONDS}


def test_few_groups_are_fewer_folds_and_a_single_one_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def of_a_mean(x: Floats, values: Floats, asked: Floats) -> Floats:
        assert len(x) > 0
        assert len(asked) > 0
        return np.full(len(asked), values.mean())

    monkeypatch.setattr(qoredl, "LEARNERS", {qoredl.FOREST: of_a_mean})
    x = np.column_stack([np.ones((6, 4)), [0.5, 0.5, 1.0, 1.0, 1.5, 1.5]])
    found = qoredl.splits(x, SECONDS, np.array([1.0, 1.2, 2.0, 2.4, 3.0, 3.6]), draws=2)
    assert {row["split"] for row in found} == {"rows at random", "by configuration"}
    assert all(np.isfinite(row["value"]) for row in found)
    assert "by model: skipped, there is one alone" in capsys.readouterr().out
