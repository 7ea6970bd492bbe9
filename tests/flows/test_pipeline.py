"""The flow against a real server: a scheduled run end to end, a failure with retries, a cancelled run."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from flow_process import ask
from running import Prefect, alive, until, written_pid

from flows import service
from mfcp.errors import MfcpError

REPOSITORY = Path(__file__).parents[2]
# One worker of pytest-xdist for all of them: they share the server.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prefect")]


def task_runs(prefect: Prefect, flow_run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = ask(
        prefect, "task_runs", task_runs={"flow_run_id": {"any_": [flow_run["id"]]}}, sort="EXPECTED_START_TIME_ASC"
    )
    return {run["name"]: run for run in found}


def flow_run(prefect: Prefect, name: str) -> dict[str, Any]:
    (found,) = ask(prefect, "flow_runs", flow_runs={"name": {"any_": [name]}})
    return found


def start(prefect: Prefect, toy: Path, name: str, call: str) -> subprocess.Popen[str]:
    """`call` of the pipeline in a process of its own, as `make flow` does, under a name to find it by."""
    code = f"from flows.pipeline import pipeline\npipeline.with_options(flow_run_name={name!r})({call})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=toy,
        env=service.environment(prefect.home, prefect.port),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_scheduled_run_completes_every_stage(prefect: Prefect, toy: Path, tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "prefect.yaml", toy)
    content = yaml.safe_load((toy / "prefect.yaml").read_text())
    (deployment,) = (own for own in content["deployments"] if own["name"] == service.NIGHTLY)
    deployment["schedules"] = [{"interval": 10}]  # seconds: nobody waits for the night
    (toy / "prefect.yaml").write_text(yaml.safe_dump(content))

    service.make_pool(toy, prefect.home, prefect.port)
    service.deploy(toy, prefect.home, prefect.port, [service.NIGHTLY])
    with (
        (tmp_path / "worker.log").open("w") as log,
        service.worker(toy, prefect.home, prefect.port, stdout=log, stderr=subprocess.STDOUT),
    ):
        finished = {"state": {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]}}}
        own = {
            "flow_runs": finished,
            "deployments": {"name": {"any_": [service.NIGHTLY]}},
        }  # others use the server, too
        until(lambda: ask(prefect, "flow_runs", **own), "a scheduled run ends", seconds=90)
        first = ask(prefect, "flow_runs", **own, sort="EXPECTED_START_TIME_ASC")[0]
        assert first["state_type"] == "COMPLETED", (first["state"]["message"], (tmp_path / "worker.log").read_text())

        def asked() -> list[str]:
            told = ask(prefect, "logs", logs={"flow_run_id": {"any_": [first["id"]]}})
            return [line["message"] for line in told if line["message"].startswith("asked by")]

        # Prefect sends a run's log in batches, the last after the run's end: a worker ended before takes it along.
        until(asked, "the run's log is told", seconds=30)
    assert first["auto_scheduled"]
    assert first["parameters"]["retries"] == deployment["parameters"]["retries"]
    runs = task_runs(prefect, first)
    assert list(runs) in (["first", "middle", "other", "last"], ["first", "other", "middle", "last"])
    assert {run["state_type"] for run in runs.values()} == {"COMPLETED"}
    assert (toy / "last").read_text() == "one\none\none\n"
    assert [first["id"] in line for line in asked()] == [True]  # what MLflow keeps beside the stage's run


def test_a_failed_stage_is_retried_then_fails_the_run_with_its_own_words(prefect: Prefect, toy: Path) -> None:
    with (toy / "dvc.yaml").open("a") as file:
        file.write("  broken: {cmd: echo the disk is full >&2; exit 7, deps: [first], outs: [never]}\n")
        file.write("  after: {cmd: cat never, deps: [never]}\n")
    process = start(prefect, toy, "failing", "targets=['after'], retries=1, retry_delay_s=0.1")
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "the disk is full" in output
    run = flow_run(prefect, "failing")
    assert run["state_type"] == "FAILED"
    assert "the disk is full" in run["state"]["message"]
    runs = task_runs(prefect, run)
    assert {name: task["state_type"] for name, task in runs.items()} == {"first": "COMPLETED", "broken": "FAILED"}
    assert runs["broken"]["run_count"] == 2
    logged = ask(prefect, "logs", logs={"flow_run_id": {"any_": [run["id"]]}})
    assert any(record["message"] == "the disk is full" for record in logged)


def test_a_terminated_run_ends_its_stage(prefect: Prefect, toy: Path) -> None:
    (toy / "dvc.yaml").write_text("stages:\n  long: {cmd: echo $$ > stage.pid; sleep 300}\n")
    process = start(prefect, toy, "terminated", "")
    pid = written_pid(toy / "stage.pid")
    process.send_signal(signal.SIGTERM)  # what a worker sends when a run is cancelled
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not alive(pid)
    assert flow_run(prefect, "terminated")["state_type"] in ("CRASHED", "FAILED", "CANCELLED")


def test_a_port_in_use_is_a_clear_error(prefect: Prefect, tmp_path: Path) -> None:
    with (
        pytest.raises(
            MfcpError,
            match=f"port {prefect.port} of .* in use; choose another, for instance PREFECT_PORT={prefect.port + 1}",
        ),
        service.server(tmp_path, prefect.port),
    ):
        pass
