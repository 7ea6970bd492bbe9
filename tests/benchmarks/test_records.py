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
from benchmarks.families_judged import UNNAMED, Part, records, unnamed
from benchmarks.qoredl import GIVEN, SECONDS, WORK
from benchmarks.records import names_of, whole, wholes, write_records

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


def test_groups_that_are_off_most_are_named_unless_no_document_names_them() -> None:
    """Errors of .1, .2 and .3 of runs of three groups, of which studies hold out the second for good."""
    held_out = sorted(unnamed())[0]
    off = np.array([0.1, 0.2, 0.3, 0.3])
    part = Part("A", "t", np.zeros(4), np.zeros(4), np.zeros(4, int), np.array(["f", held_out, "g", "g"]), ("ours",))
    part.rows = {"ours": off[None], "theirs": off[None]}
    rows = part.judged()["rows"]
    assert [name for name, _ in rows["ours"]["worst"]] == ["g", UNNAMED, "f"]
    assert [share for _, share in rows["ours"]["worst"]] == pytest.approx([18 / 23, 4 / 23, 1 / 23])
    assert rows["theirs"]["worst"] == []


def test_numbers_are_whole_and_not_too_small() -> None:
    assert (whole("2"), wholes("3,0"), wholes("1", least=1)) == (2, [3, 0], [1])
    for asked in (lambda: whole("0"), lambda: whole("1.5"), lambda: wholes("1,x"), lambda: wholes("2,0", least=1)):
        with pytest.raises(argparse.ArgumentTypeError, match=r"whole numbers? .*at least [01]"):
            asked()


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


def small_tables(folder: Path) -> None:
    """Qore-DL's log of five models, and the two tables of throughputs: what columns D and E ask for."""
    rng = np.random.default_rng(0)
    for name in ("qoredl", "gavel", "schedulers/elasticflow"):
        (folder / name).mkdir(parents=True)
    models = rng.uniform(1e6, 1e9, (5, len(WORK)))
    rows = [(*model, cpu, memory) for model in models for cpu in (1.0, 2.0) for memory in (2.0, 4.0)] * 2
    log = pd.DataFrame(rows, columns=[*WORK, *GIVEN])
    log[SECONDS] = log[WORK[0]] / 1e8 / log[GIVEN[0]] * rng.lognormal(0, 0.05, len(log))
    log.to_parquet(folder / "qoredl/iteration_time.parquet")
    pd.DataFrame(
        [(f"m{j}", "A100", g, 64, 8.0 * g**0.9 / (j + 1)) for j in range(3) for g in (1, 4, 16)],
        columns=["model", "gpu", "num_gpus", "global_batch_size", "iterations_per_s"],
    ).to_csv(folder / "schedulers/elasticflow/throughputs.csv", index=False)
    kinds = [("V100", g, where) for g in (1, 2, 4) for where in
             (("consolidated", "unconsolidated") if g > 1 else ("consolidated",))]  # fmt: skip
    clusters = [(f"{kind}-{g}-{where}", kind, g, where, 1e13, 1e12) for kind, g, where in kinds]
    figures = ("accelerator", "accelerator_count", "placement", "peak_flops", "memory_bandwidth")
    pd.DataFrame(clusters, columns=["cluster_id", *figures]).to_parquet(folder / "gavel/clusters.parquet")
    pd.DataFrame({"task_id": [f"t{j}" for j in range(3)], "model": [f"m{j}" for j in range(3)]}).to_parquet(
        folder / "gavel/tasks.parquet"
    )
    runs = [(f"t{j}", cluster[0], "succeeded", (j + 1) * 0.1, 32) for j in range(3) for cluster in clusters]
    pd.DataFrame(runs, columns=["task_id", "cluster_id", "status", "step_time_s", "batch_size"]).to_parquet(
        folder / "gavel/runs.parquet"
    )


def test_columns_of_tables_are_made_from_small_data(tmp_path: Path) -> None:
    """The program as it is run on other data: every row of D and E has a number, and the profiled mean is right."""
    small_tables(tmp_path)
    command = [sys.executable, ROOT / "benchmarks/families.py", "--data", tmp_path, "--columns", "D,E", "--draws", "1"]
    done = subprocess.run([*command, "--json", tmp_path / "rows.json"], capture_output=True, text=True, timeout=300,
                          check=False, cwd=ROOT)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads((tmp_path / "rows.json").read_text())
    held = ("configuration", "count", "placement")
    parts = {f"E {name} {column}" for name in ("ElasticFlow", "Gavel") for column in held}
    assert {row["part"] for row in rows} == parts | {"D configuration", "D model"}
    found = {(row["part"], row["row"]): row["value"] for row in rows if row["metric"] == "mape"}
    assert len(found) > 40
    assert all(value >= 0 for value in found.values())
    assert 0.03 < found["D configuration", "profiled mean"] < 0.09  # two runs with 5 % of noise each
