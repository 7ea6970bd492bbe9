"""Tables for programs: what every benchmark that is run on data kept back writes."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.evidence_page import SCORED, SUMS, records_of, summarise
from benchmarks.families_judged import Part, records
from benchmarks.records import names_of, write_records

ROOT = Path(__file__).parents[2]


def test_rows_are_plain_json(tmp_path: Path) -> None:
    write_records(tmp_path / "new/rows.json", [{"name": "a", "value": float("nan"), "n": 3}, {"value": float("inf")}])
    assert json.loads((tmp_path / "new/rows.json").read_text()) == [
        {"name": "a", "value": None, "n": 3},
        {"value": None},
    ]


def test_names_are_those_that_there_are() -> None:
    assert names_of("b, a", known=("a", "b")) == ["b", "a"]
    with pytest.raises(argparse.ArgumentTypeError, match="no 'c'; there are a, b"):
        names_of("a,c", known=("a", "b"))


def test_a_comparison_has_shares_and_intervals_of_its_groups() -> None:
    """Two families, one with twice the other's error: a draw has the first alone, the second alone, or both."""
    truth, group = np.zeros(20), np.repeat(["f", "g"], 10)
    error = np.where(group == "f", 0.1, 0.2)
    rows = {"ours": np.log1p(error)[None], "some": np.where(group == "f", np.log(1.3), np.nan)[None]}
    part = Part("A infer", "", truth, np.arange(20.0), np.zeros(20, np.int64), group, ("ours",), rows)
    part.cost["ours"], part.profiled["ours"] = (7.0, 0.5), 3.0
    found = {(row["column"], row["row"], row["metric"]): row for row in records("A infer", part.judged())}
    mape = found["A", "ours", "mape"]
    assert (mape["value"], mape["low"], mape["high"]) == pytest.approx((0.15, 0.1, 0.2))
    assert (mape["part"], mape["n"]) == ("A infer", 20)
    assert (found["A", "some", "mape"]["value"], found["A", "some", "mape"]["n"]) == (pytest.approx(0.3), 10)
    assert found["A", "some", "mape_over_best_of_ours"]["value"] == pytest.approx(3.0)
    costs = {metric: row["value"] for (column, name, metric), row in found.items() if (column, name) == ("F", "ours")}
    assert costs == {"profiled_s": 3.0, "training_s": 7.0, "answer_ms": 0.5}


def test_ratios_of_evidence_have_the_goals_names() -> None:
    rng = np.random.default_rng(0)
    ways = {"mfcp_x": 1.0, **dict.fromkeys(SCORED.values(), 0.5), "value 3": 0.4}
    frames = []
    for way, level in ways.items():
        frame = pd.DataFrame({"round": np.arange(40), "penalised_excess": level * rng.uniform(0.9, 1.1, 40)})
        counts = dict.fromkeys((*SUMS, "optimal_makespan"), 1.0)
        frames.append(frame.assign(setting="A", seed=0, draw="1", tasks=5, log="mine", method=way, cells=2.0, **counts))
    found = {row["variant"]: row for row in records_of(summarise(pd.concat(frames, ignore_index=True)))}
    assert set(found) == {*SCORED, "three_by_value_over_five"}
    assert found["finished"]["log"] == "mine"
    assert found["finished"]["cells"] == 2.0
    assert found["finished"]["low"] < found["finished"]["ratio"] < found["finished"]["high"]
    assert found["finished"]["ratio"] == pytest.approx(0.5, abs=0.05)
    assert found["three_by_value_over_five"]["ratio"] == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("conformance", "muri: skipped, no "),
        ("families", "D: no folder "),
        ("qoredl", "no iteration_time.parquet there"),
        ("evidence", "neither a log nor a folder with timm or gavel"),
    ],
)
def test_a_folder_without_data_is_told(program: str, said: str, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / f"benchmarks/{program}.py", "--data", tmp_path, "--json", tmp_path / "rows.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert json.loads((tmp_path / "rows.json").read_text()) == []
    else:
        assert (done.returncode, (tmp_path / "rows.json").exists()) == (2, False)
