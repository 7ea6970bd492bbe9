"""`mfcp check` names bad rows and what is thin, and changes nothing."""

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
    assert "1 rows break the schema and are left out:" in said
    assert "runs row 4 (task0-a-3): duration_s is '-5.0', expected a number above 0 to 1e+09 s or empty" in said
    assert pd.read_csv(tmp_path / "bad.csv")["row"].tolist() == [4]


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
