import re

import numpy as np
import pandas as pd
import pytest

from mfcp.cli import main
from mfcp.data.tables import write_tables
from mfcp.emulator.efficiency import load
from mfcp.emulator.platform import EmulatorSettings, emulate


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
    assert re.search(r"aurora-h100x1: zeta\(2\) = 0\.\d+ from \d+ pairs", text)
    assert set(load(out)) == {"H100", "A10"}
    assert set(pd.read_csv(out)["source"].str.contains("tasks")) == {True}


def test_the_emulator_takes_what_calibrate_wrote(folder, tmp_path):
    from mfcp.data.sources import Source

    out = tmp_path / "efficiencies.csv"
    assert run(folder, "--out", out) == 0
    source = Source.build(
        "emulator", tasks=2, families=["distilbert"], clusters=["aurora-h100x1"], calibration=str(out)
    )
    usual = Source.build("emulator", tasks=2, families=["distilbert"], clusters=["aurora-h100x1"])
    seconds = [s.read(0)["truth"]["duration_s"].to_numpy() for s in (source, usual)]
    assert np.isfinite(seconds[0]).all()
    assert not np.allclose(*seconds)


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
