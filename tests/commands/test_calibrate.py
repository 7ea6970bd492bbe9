import json
import re

import numpy as np
import pandas as pd
import pytest

from mfcp.cli import main
from mfcp.data.log.tables import read_tables, write_tables
from mfcp.data.sources.emulator import EmulatorSource
from mfcp.emulator.efficiency import load
from mfcp.emulator.platform import EmulatorSettings, emulate

pytestmark = pytest.mark.xdist_group("calibrating")  # one worker makes what they share


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log of the emulated platform itself, on two clusters of one accelerator each."""
    settings = EmulatorSettings(
        tasks=24,
        families=("distilbert", "mobilenet_v2"),
        clusters=("aurora-h100x1", "meridian-a10x4"),
        runs=(2, 2),
        noise=0.0,
    )
    path = tmp_path_factory.mktemp("log")
    write_tables(emulate(settings, 0), path)
    return path


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["calibrate", *map(str, arguments)])
    return end.value.code


def test_a_log_is_calibrated_printed_and_written(folder, tmp_path, capsys):
    out = tmp_path / "found" / "efficiencies.csv"
    assert run(folder, "--out", out) == 0
    text = capsys.readouterr().out
    assert re.search(r"aurora-h100x1 .* H100 .* train .*%", text)
    assert re.search(r"aurora-h100x1: zeta\(2\) = 0\.\d+ from \d+ pairs, floor 0\.\d+ at decay 2", text)
    assert "rows are left out" not in text
    assert set(load(out)) == {"H100", "A10"}
    assert set(pd.read_csv(out)["source"].str.contains("tasks")) == {True}


def test_json_has_the_numbers_of_the_table(folder, capsys):
    assert run(folder, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    rows = {(row["cluster"], row["phase"]): row for row in told["step_times"]}
    assert rows["aurora-h100x1", "train"]["accelerator"] == "H100"
    assert 0 < rows["aurora-h100x1", "train"]["mape"] < 1
    assert {one["cluster"] for one in told["zeta"]} >= {"aurora-h100x1"}


def test_the_emulator_takes_what_calibrate_wrote(folder, tmp_path):
    out = tmp_path / "efficiencies.csv"
    assert run(folder, "--out", out) == 0
    usual = EmulatorSource(tasks=2, families=("distilbert",), clusters=("aurora-h100x1",))
    source = usual.model_copy(update={"calibration": str(out)})
    seconds = [s.read(0)["truth"]["duration_s"].to_numpy() for s in (source, usual)]
    assert np.isfinite(seconds[0]).all()
    assert not np.allclose(*seconds)


def test_rows_that_validation_takes_out_are_told_with_their_reasons(folder, tmp_path, capsys):
    """Said before the fit, which has no graphs here."""
    tables = {name: table for name, table in read_tables(folder).items() if name not in ("nodes", "edges")}
    at = tables["runs"]["step_time_s"].dropna().index[:3]
    tables["runs"].loc[at, "step_time_s"] = -1.0
    write_tables(tables, tmp_path)
    assert run(tmp_path) == 2
    text = capsys.readouterr().out
    assert f"runs: 3 of {len(tables['runs'])} rows are left out: 3 by range(step_time_s), expected a number" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "-1"], "--seed: expected a whole number"),
        (["--out", "."], "error: .: a folder; expected the name of a file"),
    ],
)
def test_bad_options_are_one_line_before_anything_is_read(monkeypatch, capsys, tmp_path, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert run("no such folder", *arguments) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert words in error[0]


@pytest.mark.parametrize("missing", ["nodes", "no folder"])
def test_bad_input_is_one_line_and_code_2(folder, tmp_path, capsys, missing):
    target = tmp_path / "none"
    if missing == "nodes":
        target.mkdir()
        for path in folder.iterdir():
            if path.stem not in ("nodes", "edges"):
                (target / path.name).write_bytes(path.read_bytes())
    assert run(target) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert ("mfcp capture" if missing == "nodes" else "no such folder") in error[0]
