"""A stage that ends badly (wrong settings, no room, no right to write, Ctrl-C) says so and harms nothing."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from running import until

from mfcp.data.log.schema import SCHEMA
from mfcp.files import replacing_folder

IGNORED = Path(__file__).parents[2] / ".dvcignore"
PARAMS = {"ingest": {"source": {"kind": "folder", "path": "logs"}}}
DVC_YAML = """\
stages:
  ingest:
    cmd: python -m mfcp.stages.ingest
    deps: [logs]
    params: [ingest]
    outs:
      - data/raw: {persist: true}
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DVC repository of the stage ingest over a log of one row a table, with earlier results in data/raw."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    Path("logs").mkdir()
    for name in ("tasks", "clusters", "runs"):
        row = {column.name: "1" for column in SCHEMA[name].columns if not column.nullable}
        pd.DataFrame([row]).to_csv(f"logs/{name}.csv", index=False)
    Path(".dvc").mkdir()
    Path(".dvc/config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    Path("dvc.yaml").write_text(DVC_YAML)
    Path("params.yaml").write_text(yaml.safe_dump(PARAMS))
    Path("data/raw").mkdir(parents=True)
    Path("data/raw/earlier").write_text("result")
    return tmp_path


def ingest(**options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mfcp.stages.ingest"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload]


def assert_unharmed(root: Path) -> None:
    """Only the earlier result lies in data, with no leftover beside it."""
    found = sorted(str(path.relative_to(root)) for path in (root / "data").rglob("*") if path.is_file())
    assert found == ["data/raw/earlier"]
    assert (root / "data/raw/earlier").read_text() == "result"


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    for word in words:
        assert word in line


def test_the_stage_as_it_should_end(checkout: Path) -> None:
    done = ingest()
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in Path("data/raw").iterdir()) == [
        "clusters.parquet",
        "runs.parquet",
        "tasks.parquet",
    ]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"ingest": {**PARAMS["ingest"], "sede": 1}}, ["params.yaml", "ingest", "sede", "remove it"]),
        ({"ingest": {"source": {"kind": "flolder"}}}, ["params.yaml", "ingest", "'flolder'", "folder"]),
        ({**PARAMS, "ingets": {}}, ["params.yaml", "'ingets'", "ingest"]),
        ({"ingest": {"source": {"kind": "folder", "path": "absent"}}}, ["absent"]),
    ],
)
def test_a_wrong_setting_is_named(checkout: Path, params: object, words: list[str]) -> None:
    Path("params.yaml").write_text(yaml.safe_dump(params))
    assert_one_line(ingest(), 2, "error:", *words)
    assert_unharmed(checkout)


def test_a_full_disk(checkout: Path) -> None:
    """A limit on the size of files, which fails a write half-way as a full disk does."""
    done = ingest(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)))
    assert_one_line(done, 2, "tasks.parquet", "cannot write", "free space")
    assert_unharmed(checkout)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(checkout: Path) -> None:
    Path("data").chmod(0o500)
    try:
        assert_one_line(ingest(), 2, "data/raw", "cannot write")
    finally:
        Path("data").chmod(0o700)
    assert_unharmed(checkout)


def test_an_output_folder_that_is_a_file(checkout: Path) -> None:
    os.rename("data", "kept")
    Path("data").write_text("mine")
    assert_one_line(ingest(), 2, "data/raw", "cannot write")
    assert Path("data").read_text() == "mine"


HALF_WAY = """
import signal
import time
from pathlib import Path
import mfcp.data.log.tables as tables
import mfcp.stages.ingest as stage
from mfcp.stages.base import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
def write_tables(content, folder):
    (folder / "tasks.parquet").write_text("half of it")
    Path("half-way").touch()
    time.sleep(300)

tables.write_tables = write_tables
main(stage.run)
"""


def test_ctrl_c_in_the_middle_of_a_stage(checkout: Path) -> None:
    """While it writes, to the whole process group as a terminal does; the pipeline goes on afterwards."""
    stage = subprocess.Popen(
        [sys.executable, "-c", HALF_WAY], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        until(Path("half-way").exists, "the stage writes")
    finally:
        os.killpg(stage.pid, signal.SIGINT)
        _, message = stage.communicate(timeout=30)
    assert stage.returncode == 130
    assert message.splitlines() == ["interrupted: earlier results are unchanged; run again to go on"]
    assert_unharmed(checkout)
    subprocess.run([sys.executable, "-m", "dvc", "repro"], check=True, capture_output=True, timeout=60)
    assert Path("data/raw/runs.parquet").is_file()


STARTING = """
import runpy, signal, sys

class Interrupting:
    def find_spec(name, path, target=None):
        if name == "mfcp.stages.base":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting)
sys.argv[0] = "-m"  # as `python -m` has it until the module is found
runpy.run_module("mfcp.stages.ingest", run_name="__main__")
"""


@pytest.mark.usefixtures("checkout")
def test_ctrl_c_while_a_stage_starts() -> None:
    done = subprocess.run([sys.executable, "-c", STARTING], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.splitlines() == ["interrupted: earlier results are unchanged; run again to go on"]


def test_a_failed_stage_under_dvc_keeps_earlier_results(checkout: Path) -> None:
    repro = [sys.executable, "-m", "dvc", "repro"]
    subprocess.run(repro, check=True, capture_output=True, timeout=60)
    before = {path.name: path.read_bytes() for path in Path("data/raw").iterdir()}
    Path("logs/tasks.csv").write_text("nothing,useful\n1,2\n")
    done = subprocess.run(repro, capture_output=True, text=True, timeout=60)
    assert done.returncode
    assert "tasks.csv" in done.stderr
    assert {path.name: path.read_bytes() for path in Path("data/raw").iterdir()} == before


def test_what_a_killed_stage_leaves_half_written_is_no_data(checkout: Path) -> None:
    """It lies where a later stage reads a whole folder; counted in, it would be in dvc.lock."""
    (checkout / ".dvcignore").write_bytes(IGNORED.read_bytes())
    ignored = [sys.executable, "-m", "dvc", "check-ignore"]
    with replacing_folder(Path("data/models/mfcp_ad")) as half:
        assert subprocess.run([*ignored, half], capture_output=True, timeout=60).returncode == 0
    assert subprocess.run([*ignored, "data/models/mfcp_ad"], capture_output=True, timeout=60).returncode == 1
