"""Prefect on this machine: server, the deployments of prefect.yaml, and a worker for their scheduled runs."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flows import guard
from mfcp.environment import OFF
from mfcp.errors import MfcpError, SettingsError, guarded

HOST = "127.0.0.1"
POOL = "mfcp"
NIGHTLY = "nightly"
PREFECT_PORT, MLFLOW_PORT = "PREFECT_PORT", "MLFLOW_PORT"
USUAL_PORTS = {PREFECT_PORT: "4200", MLFLOW_PORT: "5000"}
START_S = 180.0
_THEIRS = ("PREFECT_API_DATABASE_", "PREFECT_PROFILE", "PREFECT_SERVER_")  # of another server: its database, log-in, …


def environment(home: Path, port: int) -> dict[str, str]:
    """Variables under which any Prefect command speaks to this server and leaves the user's own Prefect alone."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(_THEIRS)},
        **OFF,
        "PREFECT_HOME": str(home.resolve()),
        "PREFECT_API_URL": f"http://{HOST}:{port}/api",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": str(int(START_S)),
    }


@contextlib.contextmanager
def server(home: Path, port: int) -> Iterator[str]:
    """A Prefect server with its database in `home`; yields the address of its API, and ends it with the block.

    Raises:
        MfcpError: the port is taken, or the server did not answer in time; the message says where its log is.
    """
    require_free(port, PREFECT_PORT)
    home.mkdir(parents=True, exist_ok=True)
    log = home / "server.log"
    command = [sys.executable, "-m", "flows.prefect_server", "start", "--host", HOST, "--port", str(port)]
    options: dict[str, Any] = {"cwd": Path(__file__).parents[1], "env": environment(home, port)}
    with log.open("w") as output:
        process = guard.start(command, stdout=output, stderr=subprocess.STDOUT, **options)
    api = f"http://{HOST}:{port}/api"
    try:
        wait_for(f"{api}/health", process, log)
        yield api
    finally:
        guard.stop(process)


def require_free(port: int, variable: str) -> None:
    """Raise a MfcpError if something listens on this port already; `variable` of the environment names another."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise MfcpError(
                f"port {port} of {HOST}: {error.strerror}; choose another, for instance {variable}={port + 1}"
            ) from None


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def port_of(variable: str) -> int:
    """The port that a variable of the environment names, or the usual one of its server.

    Raises:
        SettingsError: it is no port.
    """
    text = os.environ.get(variable) or USUAL_PORTS[variable]
    if not (text.isdecimal() and 0 < int(text) < 65536):
        raise SettingsError(f"{variable}={text}: no port; give a number from 1 to 65535")
    return int(text)


def wait_until(url: str, seconds: float = START_S) -> None:
    """Return when somebody else's server answers.

    Raises:
        MfcpError: it did not in time.
    """
    deadline = time.monotonic() + seconds
    while not _answers(url):
        if time.monotonic() > deadline:
            raise MfcpError(f"{url}: no answer for {seconds:.0f} s; is the server up, and is that its port?")
        time.sleep(0.5)


def wait_for(url: str, process: subprocess.Popen[str], log: Path) -> None:
    """Return when a server answers.

    Raises:
        MfcpError: it ended, or did not answer in time; its log says why.
    """
    deadline = time.monotonic() + START_S
    while not _answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            raise MfcpError(f"{url}: no server started there; see {log}")
        time.sleep(0.3)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def make_pool(root: Path, home: Path, port: int) -> None:
    """Make the work pool, or update it; a worker may start then.

    Raises:
        MfcpError: Prefect refused; its message is passed on.
    """
    _prefect(root, home, port, "work-pool", "create", POOL, "--type", "process", "--overwrite")


def deploy(root: Path, home: Path, port: int, names: Sequence[str] = ()) -> None:
    """Make the named deployments of `root`/prefect.yaml, all if none is named, or update them; they need the pool.

    Raises:
        MfcpError: Prefect refused; its message is passed on.
    """
    wanted = [argument for name in names for argument in ("--name", name)] or ["--all"]
    _prefect(root, home, port, "deploy", *wanted)


def _prefect(root: Path, home: Path, port: int, *arguments: str) -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = subprocess.run(command, cwd=root, env=environment(home, port), capture_output=True, text=True)
    if done.returncode:
        raise MfcpError(f"prefect {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


@contextlib.contextmanager
def worker(root: Path, home: Path, port: int, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A worker that takes one run at a time; it ends with the block, and the run it is at with it."""
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process", "--limit", "1"]
    process = guard.start(command, cwd=root, env=environment(home, port), **options)
    try:
        yield process
    finally:
        guard.stop(process)


def main() -> None:
    """Serve the checkout in the working folder until Ctrl-C (`make schedule`)."""
    root = Path.cwd()
    home = Path(os.environ.get("PREFECT_HOME", ".prefect"))
    port = port_of(PREFECT_PORT)
    print("starting the Prefect server …", flush=True)
    with server(home, port):
        make_pool(root, home, port)
        deploy(root, home, port, [NIGHTLY])
        print(f"Prefect: http://{HOST}:{port}  (schedules of prefect.yaml are active; Ctrl-C ends all)", flush=True)
        with worker(root, home, port) as process:
            process.wait()
    raise MfcpError("the worker ended by itself; see its messages above")


if __name__ == "__main__":
    sys.exit(guarded(main))
