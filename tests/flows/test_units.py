"""The units of docs/how-to/deploy.md: systemd understands them, and what they start is a platform."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from configparser import RawConfigParser
from contextlib import suppress
from pathlib import Path
from unittest import mock

import httpx
import psutil
import pytest
from running import until

from benchmarks.faults import small_platform
from flows import guard, loop, workspace
from flows.service import free_ports
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.home import open_store

UNITS = Path(__file__).parents[2] / "docs/how-to/units"
SERVICES = ("prefect", "mlflow", "worker", "matcher", "serve", "ui")
WHERE_THERE_ARE_CLUSTERS = ("runner",)
BIN = Path(sys.executable).parent
pytestmark = pytest.mark.xdist_group("prefect")


class Unit(RawConfigParser):
    """A unit's file."""

    optionxform = staticmethod(str)  # type: ignore[assignment]


def read(name: str) -> Unit:
    unit = Unit(strict=True)
    unit.read_string((UNITS / name).read_text(encoding="utf-8"))
    return unit


def test_every_service_belongs_to_the_target_and_may_write_to_its_own_folder_alone() -> None:
    wanted = read("mfcp.target")["Unit"]["Wants"].split()
    assert wanted == [f"mfcp-{name}.service" for name in SERVICES]
    every = [*wanted, *(f"mfcp-{name}.service" for name in WHERE_THERE_ARE_CLUSTERS)]
    assert sorted(path.name for path in UNITS.glob("*.service")) == sorted(every)
    for name in every:
        unit = read(name)
        own = unit["Service"]
        assert (own["User"], own["Restart"], own["ReadWritePaths"]) == ("mfcp", "always", "/srv/mfcp")
        assert own["ProtectSystem"] == "strict"
        assert unit["Unit"]["PartOf"] == "mfcp.target"
        assert "0.0.0.0" not in own["ExecStart"]


def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd on this machine")
    for path in UNITS.iterdir():
        text = path.read_text(encoding="utf-8").replace("/srv/mfcp/checkout/.venv/bin", str(BIN))
        (tmp_path / path.name).write_text(text.replace("User=mfcp\n", ""))
    units = [str(path) for path in tmp_path.iterdir() if path.suffix in (".service", ".target")]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if "mfcp" in line]
    assert told == []


@pytest.mark.slow
def test_what_they_start_is_a_platform_and_its_archive_another(tmp_path: Path) -> None:
    checkout, _ = small_platform(tmp_path, {})
    home, ports = tmp_path / "srv" / "platform", dict(zip(("4200", "5000", "8000", "8050"), free_ports(4), strict=True))
    home.parent.mkdir()
    workspace.make_home(checkout, home)
    here_alone = {"here": {"executor": {"kind": "local", "folder": str(tmp_path / "tasks"), "slots": 1}}}
    workspace.set_params(home, {"platform": {"clusters": here_alone}}, "A real cluster")

    def here(text: str) -> str:
        text = text.replace("/srv/mfcp/checkout/.venv/bin", str(BIN)).replace("/srv/mfcp/checkout", str(checkout))
        text = text.replace("/srv/mfcp", str(home.parent))
        return re.sub(r"\b(4200|5000|8000|8050)\b", lambda found: str(ports[found[1]]), text)

    lines = here((UNITS / "mfcp.env").read_text(encoding="utf-8")).splitlines()
    own = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    del own["XDG_CACHE_HOME"]  # in the tests' own, kernels are compiled already
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME") if name in os.environ}
    environment = kept | own | {"PATH": f"{BIN}{os.pathsep}{kept.get('PATH', '')}"}

    def command(text: str) -> list[str]:
        return [re.sub(r"\$\{(\w+)\}", lambda found: own[found[1]], word) for word in shlex.split(here(text))]

    started = []
    try:
        for name in (*SERVICES, *WHERE_THERE_ARE_CLUSTERS):
            unit = read(f"mfcp-{name}.service")["Service"]
            if "ExecStartPre" in unit:
                before = subprocess.run(command(unit["ExecStartPre"]), cwd=checkout, env=environment,
                                        capture_output=True, text=True, timeout=240)  # fmt: skip
                assert before.returncode == 0, before.stderr
                assert name != "worker" or "mfcp-match/match every" in before.stdout
            with (tmp_path / f"{name}.log").open("w") as log:
                how = {"cwd": checkout, "env": environment, "stdout": log, "stderr": subprocess.STDOUT}
                started.append(guard.start(command(unit["ExecStart"]), **how))
        _is_a_platform(ports, home, environment, checkout)
    finally:
        for process in reversed(started):
            guard.stop(process)
        _end_runs(home)
    archive, other = tmp_path / "platform.tar.gz", tmp_path / "other"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(home, "platform")
    other.mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", other], check=True)  # tarfile's filters came with Python 3.11.4
    told = subprocess.run([BIN / "mfcp", "platform", "--home", other / "platform", "status", "--json"], env=environment,
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["counts"]["queue"] == 0


def _end_runs(home: Path) -> None:
    """Runs have sessions of their own and outlive their worker; systemd would know them by the unit."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("MFCP_HOME") == str(home):
                process.kill()


def _is_a_platform(ports: dict[str, int], home: Path, environment: dict[str, str], checkout: Path) -> None:
    """Its pages answer, its worker runs what is scheduled, and `mfcp doctor` finds nothing missing."""

    def answers(browser: httpx.Client, port: str, path: str, status: int, told: str) -> Callable[[], bool]:
        def ask() -> bool:
            try:
                reply = browser.get(f"http://127.0.0.1:{ports[port]}{path}")
            except httpx.HTTPError:
                return False
            return reply.status_code == status and told in reply.text

        return ask

    with httpx.Client(timeout=5, trust_env=False) as browser:
        until(answers(browser, "5000", "/health", 200, "OK"), "MLflow", 120)
        until(answers(browser, "8000", "/health", 503, "no champion yet"), "the service", 120)
        until(answers(browser, "8050", "/", 200, "No release decides"), "the page", 120)
    with mock.patch.dict(os.environ), loop.client(home, ports["4200"]) as found:
        scheduled = {name for name, own in loop.FLOWS.items() if found.read_deployment_by_name(own).schedules}
        assert scheduled == set(loop.FLOWS) - {"promote"}  # which retrain asks for
        _, made = (
            found.create_flow_run_from_deployment(found.read_deployment_by_name(loop.FLOWS[name]).id)
            for name in ("run", "match")
        )
        until(lambda: str(found.read_flow_run(made.id).state_name) == "Completed", "a round", 120)
    attempts = Attempts(open_store(home))
    until(attempts.health, "the cluster is asked", 120)
    told = _doctor(environment, checkout)
    assert "here: asked" in told
    assert told.count("answers at port") == 2


def _doctor(environment: dict[str, str], checkout: Path) -> str:
    """What `mfcp doctor` prints, which finds nothing missing."""
    done = subprocess.run([BIN / "mfcp", "doctor", "platform"], cwd=checkout, env=environment, capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
