"""Flows that run in one process, which has done its imports, and what a real Prefect server knows of them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from running import Prefect

from flows import service

REPOSITORY = Path(__file__).parents[1]
_PATIENCE_S = 300.0  # with one flow
_PROGRAM = """
import importlib, json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    call = json.loads(line)
    os.environ["MFCP_HOME"] = call["home"]
    try:
        flow = getattr(importlib.import_module("flows." + call["flow"]), call["flow"])
        answer = {"returned": flow.with_options(flow_run_name=call["name"])(**call["arguments"])}
    except Exception:
        answer = {"failed": traceback.format_exc()}
    print(json.dumps(answer), file=answers, flush=True)
"""


class FlowError(Exception):
    """A flow ended with an exception; its traceback."""


@dataclass(frozen=True)
class Ran:
    """A flow that ended: what it returned, its run as the server knows it, and what it wrote to the terminal."""

    returned: Any
    found: dict[str, Any]
    said: str


class FlowProcess:
    """Runs flows one after another; importing Prefect and the flows takes seconds, which a process pays once."""

    def __init__(self, prefect: Prefect, folder: Path) -> None:
        self._prefect, self._log = prefect, folder / "flows.log"
        self._process: subprocess.Popen[str] | None = None

    def run(self, home: Path, flow: str, name: str, **arguments: Any) -> Ran:
        """Run `flows.<flow>` on this platform as a run of this name.

        Raises:
            FlowError: it raised.
        """
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        before = self._log.stat().st_size
        call = {"home": str(home), "flow": flow, "name": name, "arguments": arguments}
        print(json.dumps(call), file=process.stdin, flush=True)
        watchdog = threading.Timer(_PATIENCE_S, process.kill)
        watchdog.start()
        answered = process.stdout.readline()
        watchdog.cancel()
        with self._log.open() as log:
            log.seek(before)
            said = log.read()
        assert answered, f"the process of the flows has ended: {said}"
        answer = json.loads(answered)
        if "failed" in answer:
            raise FlowError(answer["failed"])
        (found,) = ask(self._prefect, "flow_runs", flow_runs={"name": {"any_": [name]}})
        return Ran(answer["returned"], found, said)

    def end(self) -> None:
        """End the process, if one was needed."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _started(self) -> subprocess.Popen[str]:
        with self._log.open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-c", _PROGRAM],
                cwd=REPOSITORY,
                env=service.environment(self._prefect.home, self._prefect.port),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )


def ask(prefect: Prefect, what: str, **body: Any) -> list[dict[str, Any]]:
    """What `POST /<what>/filter` of Prefect's API finds."""
    request = urllib.request.Request(
        f"{prefect.api}/{what}/filter", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        found = json.load(reply)
    return list(found["events"] if what == "events" else found)
