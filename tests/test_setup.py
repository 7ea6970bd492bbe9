"""The set-up files agree with each other: lock, requirements, Makefile, telemetry."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from mfcp import environment, errors

ROOT = Path(__file__).parents[1]
LOCK = "".join(re.sub(r"(?m)^#.*\n", "", (ROOT / name).read_text()) for name in ("requirements.lock", "torch.lock"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ALL = Requirement(PROJECT["optional-dependencies"]["all"][0])
MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_lock_is_exact_versions_with_hashes_and_nothing_else() -> None:
    exact, hashed = r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", r"( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    assert re.sub(exact + hashed, "", LOCK) == re.search(r"torch==.*\n", LOCK)[0]  # type: ignore[index]


def test_a_file_of_another_hash_is_not_installed(tmp_path: Path) -> None:
    """As set-up installs, from a folder that holds a package whose bytes are not those of the lock."""
    name, version, packed = "mfcp-locked", "1", tmp_path / "mfcp_locked-1-py3-none-any.whl"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(
            "mfcp_locked-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            "mfcp_locked-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("mfcp_locked-1.dist-info/RECORD", "")
    options = re.search(r"pip install (.*) --requirement requirements.lock", MAKEFILE)[1]  # type: ignore[index]
    command = (
        f"{sys.executable} -m pip install {options} --no-index --find-links . --dry-run --requirement lock".split()
    )
    for digest, code in ((hashlib.sha256(packed.read_bytes()).hexdigest(), 0), ("0" * 64, 1)):
        (tmp_path / "lock").write_text(f"{name}=={version} --hash=sha256:{digest}\n")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr


def test_the_lock_meets_every_requirement_of_the_project() -> None:
    locked = {canonicalize_name(name): version for name, version in re.findall(r"(?m)^(\S+)==(\S+)", LOCK)}
    installed = [text for name in ("dev", *ALL.extras) for text in PROJECT["optional-dependencies"][name]]
    wanted = [Requirement(text) for text in (*PROJECT["dependencies"], *installed)]
    wrong = [str(need) for need in wanted if not need.specifier.contains(locked.get(canonicalize_name(need.name), "0"))]
    assert wrong == []


def test_every_package_runs_on_the_oldest_python_that_is_told() -> None:
    """Debian 12 has 3.11.2: a package that asks for 3.11.5 ends the set-up there."""
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    asks = {found.metadata["Name"]: found.metadata.get("Requires-Python") for found in metadata.distributions()}
    assert {name for name, own in asks.items() if own and oldest not in SpecifierSet(own)} == set()


def test_what_is_imported_is_declared() -> None:
    """Every third-party package that our code imports stands in pyproject.toml, not only in the lock."""
    from importlib.metadata import packages_distributions

    from test_layers import PROGRAM, imported

    extras = [text for name, extra in PROJECT["optional-dependencies"].items() if name != "dev" for text in extra]
    declared = {canonicalize_name(Requirement(text).name) for text in [*PROJECT["dependencies"], *extras]}
    owners = packages_distributions()
    names = {name.split(".")[0] for path in PROGRAM for name in imported(path)}
    names -= set(sys.stdlib_module_names) | {"mfcp", "flows", "__future__"}
    assert {name for name in names if not {canonicalize_name(owner) for owner in owners[name]} & declared} == set()


def test_the_library_runs_without_its_extras(tmp_path: Path) -> None:
    """The page for a training loop, where nothing is to be found but what `pip install mfcp` brings."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    absent = f"import sys\nfor name in {sorted(errors.EXTRAS)}: sys.modules[name] = None\n"
    (tmp_path / "page.py").write_text(absent + program)
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_log_leads_to_a_plan_without_the_extras(tmp_path: Path) -> None:
    """From an empty folder, outside any checkout; what needs an extra names it."""
    from platform_log import small_log

    from mfcp.data.log.tables import write_tables

    log = small_log(12)
    write_tables(log, tmp_path / "log", format="csv")
    write_tables({"tasks": log["tasks"].drop(columns="graph_id").head(3)}, tmp_path / "new", format="csv")
    absent = f"import sys\nfor name in {sorted(errors.EXTRAS)}: sys.modules[name] = None\n"

    def mfcp(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = f"{absent}from mfcp.cli import main\nmain({list(arguments)!r})"
        return subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
        )

    # Without graph networks: the graphs of a log are left to who has them.
    for name in ("nodes", "edges"):
        (tmp_path / "log" / f"{name}.csv").unlink()
    tasks = tmp_path / "log" / "tasks.csv"
    tasks.write_text(re.sub(r",g\d", ",", tasks.read_text()))
    for arguments in (
        ("check", "log"),
        ("release", "--data", "log", "--out", "release"),
        ("match", "--model", "release", "--tasks", "new/tasks.csv", "--out", "plan.csv"),
        ("doctor", "library"),
    ):
        done = mfcp(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    assert (tmp_path / "plan.csv").read_text().count("\n") == 4
    done = mfcp("ui", "--model", "release")
    assert (done.returncode, "pip install 'mfcp[platform]'" in done.stderr) == (2, True), done.stderr
    done = mfcp("doctor", "platform", "--json")
    assert "pip install 'mfcp[graphs,pipeline,platform]'" in done.stdout


def test_a_missing_extra_is_named_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    def needing() -> None:
        raise ModuleNotFoundError("No module named 'mlflow.entities'", name="mlflow.entities")

    assert errors.guarded(needing) == 2
    assert capsys.readouterr().err == "error: this needs mlflow: pip install 'mfcp[pipeline]'\n"
    for package, extra in errors.EXTRAS.items():
        named = {canonicalize_name(Requirement(text).name) for text in PROJECT["optional-dependencies"][extra]}
        assert canonicalize_name(package) in named


def test_makefile_and_code_switch_off_the_same_telemetry() -> None:
    exported = dict(re.findall(r"^export ([A-Z_]+) := (\S+)$", MAKEFILE, flags=re.MULTILINE))
    assert {name: value for name, value in exported.items() if name not in ("PATH", "VIRTUAL_ENV")} == environment.OFF


def test_the_users_own_telemetry_choice_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    monkeypatch.delenv("GX_ANALYTICS_ENABLED")
    environment.switch_off()
    assert os.environ["DO_NOT_TRACK"] == "0"
    assert os.environ["GX_ANALYTICS_ENABLED"] == "false"


def test_environment_is_off_before_any_tool_is_imported() -> None:
    code = "import os, {module}; print(*(os.environ.get(name) for name in {names}))"
    clean = {key: value for key, value in os.environ.items() if key not in environment.OFF}
    for module in ("mfcp", "flows.pipeline"):
        program = code.format(module=module, names=list(environment.OFF))
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=clean, check=True, capture_output=True, text=True
        )
        assert done.stdout.split() == list(environment.OFF.values())


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_make_alone_lists_the_commands() -> None:
    listed = re.findall(r"^  make (\w+) +\S", make().stdout, flags=re.MULTILINE)
    assert {"run", "test", "bench", "ui", "flow", "schedule"} <= set(listed)


def test_an_unsuitable_python_is_named_with_the_remedy(tmp_path: Path) -> None:
    for name in ("requirements.lock", "torch.lock"):
        (tmp_path / name).write_text("")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    done = subprocess.run(
        ["make", "setup", "PYTHON=false"], cwd=tmp_path, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "needs Python 3.11 or newer; tried: false. Give one: make PYTHON=" in done.stderr


def test_an_unpacked_archive_is_told_what_it_lacks_before_anything_is_installed(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    outside = os.environ | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    for command in ("run", "test", "check", "flow", "schedule"):
        done = subprocess.run(["make", command], cwd=tmp_path, env=outside, capture_output=True, text=True)
        assert done.returncode == 2
        assert "need a git repository: fatal: not a git repository" in done.stderr
        assert "In an unpacked archive: git init -q && git add -A" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_an_interrupted_set_up_starts_over(tmp_path: Path) -> None:
    """With nothing to install: the leftover of the first try must be gone, and the second must end."""
    for name in ("requirements.lock", "torch.lock"):
        (tmp_path / name).write_text("")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    leftover = tmp_path / ".venv" / "lib" / "half-a-package"
    leftover.mkdir(parents=True)
    (tmp_path / ".venv" / ".unfinished").touch()
    command = ["make", ".venv/.locked", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the last one was interrupted; starting over" in done.stdout
    assert not leftover.exists()
    assert subprocess.run([*command, "--question"], cwd=tmp_path).returncode == 0  # nothing left to do


def test_committed_files_name_no_place_of_this_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    places = {str(ROOT), str(Path.home()), sys.prefix} - {"/"}
    texts = {name: (ROOT / name).read_bytes() for name in listed.stdout.split("\0") if (ROOT / name).is_file()}
    found = {(name, place) for name, text in texts.items() for place in places if place.encode() in text}
    assert found == set()
