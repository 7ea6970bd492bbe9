"""Members of families from outside: files named by --with, and installed packages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from platform_log import small_log, small_settings
from warm import warm_python

from mfcp.data.log.tables import write_tables

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("extensions")]

RULE = """
from typing import ClassVar

import numpy as np

from mfcp.rules.base import Rule


class Fastest(Rule):
    "Every task where it is fastest."

    name: ClassVar[str] = "fastest"

    def plan(self, belief, *, parameter, price, margin=0.0):
        return np.argmin(np.where(belief.allowed, belief.T, np.inf), axis=1)


METHODS = {"fastest_log": {"kind": "two_stage", "loss": "log_time", "rule": {"kind": "fastest"}}}
"""
ENGINE = """
from typing import Any, ClassVar

import numpy as np

from mfcp.matching.engines.base import Engine, Found


class First(Engine):
    "Everything on the first cluster."

    name: ClassVar[str] = "first"

    def match_round(self, problem, *, price, time_limit, start) -> Found:
        return Found(np.zeros((1, problem.tasks), np.int64), np.zeros(1))
"""
POLICY = """
from typing import ClassVar

from mfcp.simulator.policies.base import Keys, Ordering


class Longest(Ordering):
    "The job that asks for most accelerators first."

    name: ClassVar[str] = "widest_first"

    def keys(self, view) -> Keys:
        return Keys(-view.gpus.astype(float))
"""


COMMAND = "import sys; from mfcp.cli import main; sys.exit(main())"  # what is installed as `mfcp`
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def mfcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """The command in a process of its own, in a folder."""
    imports = ("mfcp.cli", "mfcp.study.setting", "mfcp.matching.planning", "torch", "pandas")
    with warm_python(tmp_path_factory.mktemp("python"), imports=imports) as python:
        yield lambda folder, *arguments: python.run(COMMAND, *arguments, folder=folder)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, short settings, and the whole file that CONTRIBUTING shows."""
    place = tmp_path_factory.mktemp("own")
    write_tables(small_log(40), place / "my-log")
    content = small_settings().content
    content["finetune"] = {"steps": 2}
    (place / "params.yaml").write_text(yaml.safe_dump(content))
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    (place / "my_method.py").write_text(next(block for block in shown if "class CautiousMean(Method)" in block))
    (place / "my_rule.py").write_text(RULE)
    (place / "my_engine.py").write_text(ENGINE)
    (place / "my_policy.py").write_text(POLICY)
    return place


def test_the_method_of_contributing_is_compared_released_and_decides(mfcp: Command, place: Path) -> None:
    options = ("--data", "my-log", "--with", "my_method.py", "--with", "my_rule.py")
    compared = ("--methods", "tsm,cautious_mean,fastest_log", "--settings", 1, "--seeds", 1, "--out", "results")
    done = mfcp(place, "benchmark", *options, *compared)
    assert done.returncode == 0, done.stderr
    assert set(json.loads((place / "results/metrics.json").read_text())["A"]) == {"tsm", "cautious_mean", "fastest_log"}
    done = mfcp(place, "release", *options, "--method", "cautious_mean", "--out", "my-release")
    assert done.returncode == 0, done.stderr
    new = small_log(3, seed=9, start=500)
    write_tables({name: new[name] for name in ("tasks", "nodes", "edges")}, place / "new")
    match = ("match", "--model", "my-release", "--tasks", "new")
    done = mfcp(place, *match, "--with", "my_method.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rule"] == "point"
    alone = mfcp(place, *match)
    assert alone.returncode == 2
    assert "unknown method kind 'cautious_mean'" in alone.stderr
    assert "--with" in alone.stderr
    done = mfcp(place, *match, "--with", "my_method.py", "--with", "my_engine.py", "--engine", "first", "--gamma", 0)
    assert done.returncode == 0, done.stderr
    assert {row["cluster_id"] for row in json.loads(done.stdout)["tasks"]} == {"a"}


def test_a_policy_of_ones_own_schedules(mfcp: Command, place: Path) -> None:
    (place / "trace.csv").write_text("job_id,submit_time_s,gpus,duration_s\na,0,1,10\nb,0,4,10\n")
    done = mfcp(place, "simulate", "--trace", "trace.csv", "--cluster", "4", "--policy", "fifo,widest_first",
                "--with", "my_policy.py", "--out", "simulated")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "widest_first" in done.stdout


def test_an_installed_package_is_found_without_an_option(place: Path, tmp_path: Path) -> None:
    (tmp_path / "my_package.py").write_text(RULE)
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mfcp]\nfastest = my_package\n")
    program = (
        "from mfcp.settings import Settings\n"
        "rows = {'methods': {'x': {'kind': 'two_stage', 'rule': {'kind': 'fastest'}}}}\n"
        "print(Settings(rows).methods['x'].rule.name)"
    )
    found = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=found)
    assert done.stdout == "fastest\n", done.stderr
    (tmp_path / "my_package.py").write_text("import nothing_of_the_kind")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=found)
    assert "extension 'fastest' (my_package): cannot be imported (ModuleNotFoundError" in done.stderr


WRONG = {
    "missing": (None, "own.py: no such file; expected a Python file"),
    "fails": ("x = 1\n1 / 0\n", "own.py: cannot be executed, line 2 (ZeroDivisionError: division by zero); mend it"),
    "nothing": ("class A:\n  pass\n", "own.py: defines no member of a family; expected a class derived from Method"),
    "no rows": ("METHODS = 3\n", "own.py: METHODS is a int; expected a mapping of labels to rows"),
    "taken": (RULE.replace('"fastest"', '"point"'), "rule 'point' is there already"),
}
EACH = """
import contextlib, io, json, pathlib, sys

from mfcp.cli import main

told = {}
for k, (name, text) in enumerate(json.load(sys.stdin).items()):
    own, said, code = pathlib.Path(f"own{k}.py"), io.StringIO(), 0
    if text is not None:
        own.write_text(text)
    with contextlib.redirect_stderr(said):
        try:
            main(["release", "--data", "my-log", "--out", "none", "--with", own.name])
        except SystemExit as end:
            code = end.code
    told[name] = [code, said.getvalue().replace(own.name, "own.py")]
json.dump(told, sys.stdout)
"""


@pytest.fixture(scope="module")
def wrong(place: Path) -> dict[str, tuple[int, str]]:
    """What the command says of each file, all of them in one process."""
    given = json.dumps({name: text for name, (text, _) in WRONG.items()})
    done = subprocess.run([sys.executable, "-c", EACH], cwd=place, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", WRONG)
def test_files_that_do_not_do_are_named(wrong: dict[str, tuple[int, str]], name: str) -> None:
    code, said = wrong[name]
    assert code == 2
    assert WRONG[name][1] in said
    assert said.count("\n") == 1
