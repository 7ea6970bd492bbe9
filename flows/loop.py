"""A platform on this machine (`make platform`): Prefect, MLflow, a worker and simulated clusters, all on loopback.

A service that dies is started again: what it was at is in the database, and the next run goes on from there. In
production that is the work of systemd or of an orchestrator of containers, see docs/platform.md.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from flows import guard, service, workspace
from flows.slurm import OwnSlurm
from mfcp.compiling import prepare_ahead
from mfcp.data.pool.coverage import RELEASE_TASKS
from mfcp.errors import SettingsError, guarded
from mfcp.files import sqlite_url
from mfcp.platform.settings import PlatformSettings
from mfcp.platform.state.home import LOG, home_folder, open_store, settings
from mfcp.platform.state.store import Store

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

FLOWS = {name: f"mfcp-{name}/{name}" for name in ("ingest", "match", "monitor", "retrain", "promote", "run")}
RUNS = 3  # that the worker takes at a time; rounds have a worker of their own
POLL_S = 1.0
LONGEST_S = 60.0  # between two starts of a service that keeps dying
LEAST_RUNS = 2 * RELEASE_TASKS  # a release needs so many tasks with a time on two clusters


@dataclass
class Service:
    """A process that is there as long as the platform.

    Attributes:
        name: for people.
        command: program and arguments.
        options: of `guard.start`: where it works, under which variables.
        log: file that its output is added to.
    """

    name: str
    command: list[str]
    options: dict[str, Any]
    log: Path
    process: subprocess.Popen[str] | None = field(default=None, repr=False)
    started: float = 0.0
    deaths: int = 0

    def start(self) -> subprocess.Popen[str]:
        """Start it."""
        with self.log.open("a") as output:
            self.process = guard.start(self.command, stdout=output, stderr=subprocess.STDOUT, **self.options)
        self.started = time.monotonic()
        return self.process

    def tend(self, say: Callable[[str], None]) -> None:
        """Start it again if it died; later and later if it keeps dying."""
        lived = time.monotonic() - self.started
        self.deaths = 0 if lived > LONGEST_S else self.deaths
        if self.process is None or self.process.poll() is None or lived < min(2.0**self.deaths, LONGEST_S):
            return
        self.deaths += 1
        say(f"{self.name} ended (exit code {self.process.returncode}, see {self.log}) and is started again")
        guard.stop(self.process)
        self.start()


def variables(home: Path, port: int, mlflow_port: int) -> dict[str, str]:
    """Under which every part of the platform finds the others; tracking goes through MLflow's server."""
    return {
        **service.environment(home / "prefect", port),
        "MFCP_HOME": str(home),
        "MLFLOW_TRACKING_URI": f"http://{service.HOST}:{mlflow_port}",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "5",
        "PREFECT_WORKER_QUERY_SECONDS": "3",
    }


def services(
    root: Path,
    home: Path,
    environment: Mapping[str, str],
    section: PlatformSettings,
    port: int,
    mlflow_port: int,
    feeder: Sequence[str] = (),
) -> dict[str, Service]:
    """Prefect's server and its workers, MLflow, what hands tasks in, and simulated clusters where there are no real
    ones; none is started yet.
    """
    mlruns, host = home / "mlruns", ("--host", service.HOST, "--port")
    mlruns.mkdir(parents=True, exist_ok=True)
    kept = ("--backend-store-uri", sqlite_url(mlruns / "mlflow.db"), "--artifacts-destination", f"{mlruns}/artifacts")
    worker = ("prefect", "worker", "start", "--pool", service.POOL, "--type", "process")
    programs = {
        "prefect": ("flows.prefect_server", "start", *host, str(port)),
        "mlflow": ("mlflow", "server", *host, str(mlflow_port), "--workers", "1", *kept),
        "matcher": (*worker, "--work-queue", "match", "--limit", "1"),
        "worker": (*worker, "--work-queue", "default", "--limit", str(RUNS)),
    }
    if section.clusters:
        programs["runner"] = (*worker, "--work-queue", "run", "--limit", "2")  # the next waits for its turn, started up
    else:
        programs["simulator"] = ("mfcp.platform.simulation.simulator", "--home", str(home), *_options(section))
    if feeder:
        programs["feeder"] = (*feeder, "--home", str(home))
    options = {"cwd": root, "env": dict(environment)}
    return {
        name: Service(name, [sys.executable, "-m", *program], options, home / "logs" / f"{name}.log")
        for name, program in programs.items()
    }


def _options(section: PlatformSettings) -> list[str]:
    """The simulator's arguments."""
    options: list[str] = []
    for name, value in section.simulator.model_dump(mode="json").items():
        options += [f"--{name.replace('_', '-')}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    return options


@contextlib.contextmanager
def platform(
    root: Path, home: Path, port: int, mlflow_port: int, say: Callable[[str], None], feeder: Sequence[str] = ()
) -> Iterator[tuple[dict[str, Service], PlatformSettings]]:
    """The whole platform, running and its flows deployed, without schedules; it ends with the block.

    Args:
        root: checkout whose flows run.
        home: the platform's folder, made if missing.
        port, mlflow_port: of Prefect and MLflow.
        say: called with a line for the user.
        feeder: module, with its arguments, that hands in tasks for real clusters.

    Raises:
        MfcpError: a port is taken, or a service does not start; the message says where its log is.
    """
    service.require_free(port, service.PREFECT_PORT)
    service.require_free(mlflow_port, service.MLFLOW_PORT)
    workspace.make_home(root, home)
    section: PlatformSettings = settings(home).section("platform")
    parts = services(root, home, variables(home, port, mlflow_port), section, port, mlflow_port, feeder)
    say(f"starting Prefect, MLflow and {'the workers' if section.clusters else 'the simulated clusters'} …")
    try:
        started = {name: parts[name].start() for name in ("prefect", "mlflow")}
        if "simulator" in parts:
            parts["simulator"].start()
        service.wait_for(f"http://{service.HOST}:{port}/api/health", started["prefect"], parts["prefect"].log)
        service.make_pool(root, home / "prefect", port)
        for name in ("matcher", "worker", "runner"):
            if name in parts:
                parts[name].start()
        service.deploy(root, home / "prefect", port, list(FLOWS))
        service.wait_for(f"http://{service.HOST}:{mlflow_port}/health", started["mlflow"], parts["mlflow"].log)
        if "feeder" in parts:
            parts["feeder"].start()
        yield parts, section
    finally:
        for part in reversed(parts.values()):
            if part.process is not None:
                guard.stop(part.process)


@contextlib.contextmanager
def client(home: Path, port: int) -> Iterator[SyncPrefectClient]:
    """A client of the platform's Prefect server, whatever the user's own settings say."""
    os.environ.update(service.environment(home / "prefect", port))  # read when Prefect is imported, hence only once
    from prefect.client.orchestration import SyncPrefectClient

    with SyncPrefectClient(f"http://{service.HOST}:{port}/api") as found:
        yield found


def schedule(found: SyncPrefectClient, name: str, every_s: float) -> None:
    """Run a flow every so many seconds from now on, in place of the schedules that it had; never if 0."""
    from prefect.client.schemas.schedules import SCHEDULE_TYPES, IntervalSchedule

    deployment = found.read_deployment_by_name(FLOWS[name])
    for old in found.read_deployment_schedules(deployment.id):
        found.delete_deployment_schedule(deployment.id, old.id)
    if every_s:
        plans: list[tuple[SCHEDULE_TYPES, bool]] = [(IntervalSchedule(interval=timedelta(seconds=every_s)), True)]
        found.create_deployment_schedules(deployment.id, plans)


def run_now(found: SyncPrefectClient, name: str) -> UUID:
    """Have the worker run a flow once, beside its schedule; the run."""
    return found.create_flow_run_from_deployment(found.read_deployment_by_name(FLOWS[name]).id).id


class FirstRelease:
    """Trainings as soon as a log may be enough, and again when more has come, until there is a release."""

    def __init__(self, found: SyncPrefectClient, store: Store) -> None:
        self._found, self._store = found, store
        self._run: UUID | None = None
        self._runs = 0

    def is_there(self, say: Callable[[str], None]) -> bool:
        """Whether there is a release; if not, train where that is worth a try. `say` is told why one has failed."""
        if not self._store.models().empty:
            return True
        if self._run is not None:
            state = self._found.read_flow_run(self._run).state
            if state is None or not state.is_final():
                return False
            if not state.is_completed():
                say(f"no release yet: {_reason(state.message or state.name or '')}")
            self._run = None
        runs = sum(rows.get("runs", 0) for rows in self._store.deliveries()["rows"])
        if runs >= max(LEAST_RUNS, self._runs + 1):
            self._runs, self._run = runs, run_now(self._found, "retrain")
        return False


def _reason(message: str) -> str:
    """What a command said was wrong, of the message of a flow that failed on it; else its last line."""
    lines = [line for line in message.splitlines() if line.strip()] or ["no reason given"]
    return next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[-1])


class News:
    """What has happened on the platform since it was last asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen = {name: len(rows) for name, (rows, _) in self._tables().items()}

    def lines(self) -> list[str]:
        """One for every delivery, release, release that was not promoted, promotion and round."""
        result = []
        for name, (rows, line) in self._tables().items():
            result += [line(row) for row in rows.iloc[self._seen[name] :].to_dict("records")]
            self._seen[name] = len(rows)
        return [line for line in result if line]

    def _tables(self) -> dict[str, tuple[Any, Callable[[dict[str, Any]], str]]]:
        store = self._store
        return {
            "deliveries": (
                store.deliveries()[::-1],
                lambda r: f"delivery {r['name']}: {r['status']}, rows {r['rows']}",
            ),
            "models": (store.models(), lambda r: f"release {r['version']} trained on {r['data'].get('tasks')} tasks"),
            "verdicts": (store.events("verdict"), lambda r: _refusal(r["content"])),
            "champions": (store.champions(), lambda r: f"{r['action']} of release {r['version']}: {r['why']}"),
            "rounds": (store.rounds()[::-1], _round),
        }


def _refusal(verdict: dict[str, Any]) -> str:
    """Why a release does not replace the one that decides; empty where it does, which is told as a promotion."""
    return "" if verdict["promote"] else f"release {verdict['challenger']} is not promoted: {verdict['why']}"


def _round(row: dict[str, Any]) -> str:
    gap = "" if row["gap"] is None else f", at most {row['gap']:.1%} above the best"
    share, gamma = row["mean_reliability"], row["gamma"]
    known = "unknown" if share is None or share != share else f"{share:.3f} (gamma {gamma:.3f})"
    return (
        f"round {row['round_id']}: {row['tasks']} tasks by release {row['version']}, makespan {row['makespan']:.0f} s"
        f"{gap}, reliability {known}"
    )


@contextlib.contextmanager
def _clusters(root: Path, home: Path, say: Callable[[str], None]) -> Iterator[Sequence[str]]:
    """The clusters that CLUSTERS asks for, and what hands in tasks for them; simulated ones are a service."""
    kind = os.environ.get("CLUSTERS") or "simulated"
    if kind == "simulated":
        yield ()
        return
    if kind != "slurm":
        raise SettingsError(f"CLUSTERS={kind}: expected simulated, or slurm for two Slurm clusters on this machine")
    from flows import own_clusters  # the zoo's models are not needed otherwise

    say("starting two Slurm clusters …")
    workspace.make_home(root, home)
    with OwnSlurm(home / "slurm", own_clusters.OWN) as slurm:
        workspace.set_params(home, own_clusters.sections(slurm), "Its clusters are Slurm's, on this machine")
        for name in slurm.clusters:
            say(f"cluster {name}: SLURM_CONF={slurm.conf(name)}")
        yield "flows.zoo_tasks", "--first-runs", "4", "--every", "40"


def main() -> None:
    """Run the platform of MFCP_HOME until Ctrl-C (`make platform`)."""
    root, home = Path.cwd(), home_folder()
    port, mlflow_port = map(service.port_of, (service.PREFECT_PORT, service.MLFLOW_PORT))

    def say(text: str) -> None:
        print(f"{datetime.now():%H:%M:%S} {text}", flush=True)

    say(f"the platform's folder is {home}")
    prepare_ahead()
    news = News(open_store(home)) if (home / "repo").exists() else None
    with _clusters(root, home, say) as feeder, platform(root, home, port, mlflow_port, say, feeder) as (parts, section):
        store = open_store(home)
        news = news or News(store)
        say(f"Prefect: http://{service.HOST}:{port}   MLflow: http://{service.HOST}:{mlflow_port}   (Ctrl-C ends all)")
        with client(home, port) as found:
            from httpx import HTTPError
            from prefect.exceptions import PrefectException

            every = section.every_s.model_dump()
            for name in ("ingest", "match", "monitor", "run"):
                schedule(found, name, every[name])
            run_now(found, "ingest")
            first = FirstRelease(found, store)
            waiting, scheduled, deciding = True, False, not store.champions().empty
            while True:
                for part in parts.values():
                    part.tend(say)
                for line in news.lines():
                    say(line)
                with contextlib.suppress(HTTPError, PrefectException):  # a server that died is just being started
                    if waiting and (workspace.repo_of(home) / f"{LOG}.dvc").exists():
                        if not scheduled:
                            schedule(found, "retrain", every["retrain"])
                            scheduled = True
                        waiting = not first.is_there(say)
                    if not deciding and not store.champions().empty:
                        run_now(found, "match")  # the first round need not wait for its schedule
                        deciding = True
                time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(guarded(main))
