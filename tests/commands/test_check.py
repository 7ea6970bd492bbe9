"""`mfcp check` names bad rows and what is thin, and changes nothing."""

import json

import pandas as pd
import pytest
from platform_log import small_log

from mfcp.cli import main
from mfcp.data.log.tables import write_tables


def check(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["check", *map(str, arguments)])
    return end.value.code


def test_bad_rows_and_misspelt_columns_are_named(tmp_path, capsys):
    log = small_log(6)
    log["runs"].loc[3, "duration_s"] = -5.0
    log["runs"] = log["runs"].rename(columns={"started_at": "startedat"})
    write_tables(log, tmp_path / "log", format="csv")
    assert check(tmp_path / "log", "--quarantine", tmp_path / "bad.csv") == 0
    said = capsys.readouterr().out
    assert "warning: runs: column 'startedat' is ignored; is it 'started_at'?" in said
    assert said.count("1 rows break the schema and are left out") == 1
    assert "runs row 4 (task0-a-3): duration_s is '-5.0', expected a number above 0 to 1e+09 s or empty" in said
    assert pd.read_csv(tmp_path / "bad.csv")["row"].tolist() == [4]


def test_what_a_stranger_wrote_is_text_in_lines_of_ours(tmp_path, capsys):
    """Neither a terminal's controls nor a new line, and no more of a cell than helps."""
    log = small_log(6)
    for table in ("clusters", "runs"):
        log[table]["cluster_id"] = log[table]["cluster_id"].replace("a", "a\x1b[2J\nruns")
    log["runs"]["duration_s"] = log["runs"]["duration_s"].astype(object)
    log["runs"].loc[3, "duration_s"] = "\x1b]0;title\x07" + "1" * 500
    write_tables(log, tmp_path / "log", format="csv")
    assert check(tmp_path / "log") == 0
    said = capsys.readouterr().out
    assert r"duration_s is '\x1b]0;title\x07" + "1" * 70 + "…', expected" in said
    assert r"a\x1b[2J\nruns  " in said
    assert "\x1b" not in said


def test_json_has_what_is_printed_and_every_bad_row(tmp_path, capsys):
    log = small_log(25, runs=2)
    log["runs"].loc[3:9, "duration_s"] = -5.0
    log["runs"] = log["runs"].rename(columns={"started_at": "startedat"})
    write_tables(log, tmp_path, format="csv")
    assert check(tmp_path) == 0
    printed = capsys.readouterr().out
    assert check(tmp_path, "--json") == 0
    out, warnings = capsys.readouterr()
    found = json.loads(out)
    assert "column 'startedat' is ignored" in warnings
    assert [row["row"] for row in found["bad_rows"]] == list(range(4, 11))
    assert found["rows"] == {"tasks": 25, "clusters": 3, "runs": len(log["runs"]) - 7}
    assert [c["cluster_id"] for c in found["clusters"]] == ["a", "b", "c"]
    assert sum(c["runs"] for c in found["clusters"]) == found["rows"]["runs"]
    assert all(reason in printed for reason in found["too_thin"])
    assert found["commands"]["release"] == {"works": True, "missing": []}
    assert f"measured pairs: {found['measured_pairs']} of {found['possible_pairs']}" in printed


def test_an_emulated_log_says_so_first(tmp_path, capsys):
    log = small_log(6)
    log["clusters"]["origin"] = "emulated"
    write_tables(log, tmp_path)
    assert check(tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("EMULATED LOG")


def test_throughput_alone_and_single_runs_are_called_thin(tmp_path, capsys):
    log = small_log(25, runs=2)
    runs = log["runs"]
    runs["samples_per_s"], runs["duration_s"] = 1e4 / runs["duration_s"], None
    write_tables(log, tmp_path)
    assert check(tmp_path) == 0
    said = capsys.readouterr().out
    assert "no durations: seconds follow from throughput" in said
    assert "fewer than 5 runs of a pair on a, b, c" in said
    assert check(tmp_path / "none") == 2


def test_a_plain_table_of_runs_needs_no_names_and_failures_without_successes_are_explained(tmp_path, capsys):
    """What a person has who has written down thirty runs: task, cluster, seconds, status."""
    tables = small_log(10, runs=1)
    tables["runs"].loc[[0, 7], ["status", "duration_s"]] = ["failed", None]
    write_tables(tables, tmp_path, format="csv")
    runs = pd.read_csv(tmp_path / "runs.csv")[["task_id", "cluster_id", "duration_s", "status"]]
    runs.to_csv(tmp_path / "runs.csv", index=False)
    check(tmp_path)
    out = capsys.readouterr().out
    assert "30 runs" in out
    assert "Every row follows the schema." in out
    assert "  - 2 failed, none on a pair that ever succeeded: pairs that cannot run, not how often runs fail: " in out
