"""Faults in a running platform: what is killed, locked, moved away, damaged or filled, and what came of every task.

    python benchmarks/faults.py --rounds 50 --seed 0
    python benchmarks/faults.py --load 4 --within 60      on a busy machine; a later round after a fault is a finding

Prefect's server and worker, MLflow and the simulated clusters run as `make platform` runs them, on a file system of
their own where the rights allow one (a disk that is full needs it). One fault after the other is injected, drawn with
the seed; a service that dies is started again, as systemd would. Then everything that was submitted must be assigned
once, each file whole, every log taken in, and each flow complete without a hand. Prints the faults as they happen and
a summary; exit code 1 where something of that does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # flows

from flows import guard, loop, service, workspace  # noqa: E402
from mfcp.border.json_text import read_json  # noqa: E402
from mfcp.data.log.tables import Tables, read_tables  # noqa: E402
from mfcp.errors import MfcpError  # noqa: E402
from mfcp.files import replacing  # noqa: E402
from mfcp.platform.intake.inbox import read_delivery  # noqa: E402
from mfcp.platform.releases.models import Models  # noqa: E402
from mfcp.platform.simulation.world import World, number_of  # noqa: E402
from mfcp.platform.state.home import LOG, settings  # noqa: E402
from mfcp.platform.state.store import Store  # noqa: E402
from mfcp.release.model import verify  # noqa: E402

R = TypeVar("R")

WORKERS = ("worker", "matcher")
DISK = 800 * 2**20
RECOVERY_S = 300.0  # without a round for so long, the platform did not recover
KINDS = {  # and their shares
    "flow": 8, "worker": 6, "server": 5, "mlflow": 4, "simulator": 4, "stage": 3, "training": 3, "retrains": 2,
    "locked": 3, "gone": 3, "corrupt": 3, "full": 2, "clock": 2,
}  # fmt: skip
LAST = ("match", "ingest", "retrain", "monitor")
LASTS = {"mlflow": (5, 30), "locked": (5, 60), "gone": (5, 60), "full": (5, 20)}  # seconds
LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""
# All that this project asks for the time is time.time; the monotonic clock is shifted by a time namespace, if allowed.
SHIFTED = """
import sys, time
real, shift = time.time, float(sys.argv[2])
time.time = lambda: real() + shift
from pathlib import Path
from mfcp.platform.state.home import open_store, settings
from mfcp.platform.releases.models import Models
from mfcp.platform.deciding.rounds import match_round
home = Path(sys.argv[1])
store = open_store(home)
for _ in range(5):
    print(match_round(store, Models(home, store), settings(home).section("platform").match), flush=True)
    time.sleep(1)
"""


@dataclass(frozen=True)
class Fault:
    """What is injected: so long after a round was complete, for so long; `draw` chooses among what is there then."""

    kind: str
    after_s: float
    lasts_s: float
    draw: float


def plan(seed: int, count: int, kinds: dict[str, int]) -> list[Fault]:
    """So many faults of a seed, the kinds in these shares; the first of each kind that lasts, lasts longest."""
    rng = np.random.default_rng(seed)
    names = [name for name, number in kinds.items() for _ in range(number)]
    names = [*kinds, *rng.permutation(names * (1 + count // len(names)))][:count]  # each kind once, if there is room
    faults, seen = [], set()
    for name in rng.permutation(names).tolist():
        low, high = LASTS.get(name, (0, 0))
        lasts = high if name not in seen else rng.uniform(low, high)
        seen.add(name)
        faults.append(Fault(name, float(rng.uniform(0, 6)), float(lasts), float(rng.random())))
    return faults


def small_platform(folder: Path, platform: dict[str, Any]) -> tuple[Path, Path]:
    """A clone of this checkout, and the home of a platform of it whose trainings take seconds.

    Args:
        folder: where both go.
        platform: its section of params.yaml.
    """
    checkout, home = folder / "checkout", folder / "home"
    workspace.git(folder, "clone", "--quiet", str(ROOT), str(checkout))
    workspace.make_home(checkout, home)
    params = home / "repo" / "params.yaml"
    content = yaml.safe_load(params.read_text())
    content["pool"] |= {"min_tasks_per_cluster": 10, "replicas": 1, "failures": "observed"}
    content["featurize"] |= {"encoder": {"kind": "none"}}
    content["matching"] |= {"validation_rounds": 20}
    content["pretrain"]["training"] |= {"epochs": 40}
    content["release"] = {"method": "tsm_log_bayes", "held_back": 0.4}
    content["platform"] = platform
    params.write_text(yaml.safe_dump(content, sort_keys=False))
    workspace.git(home / "repo", "commit", "--quiet", "--all", "--message", "A small platform")
    return checkout, home


def first_champion(home: Path, tables: Tables) -> str:
    """Version of a release learned from these tables, which is champion from now on."""
    from mfcp.release.fitting import fit_release

    folder = home / "release"
    fit_release(tables, settings(home), folder, data={"log": "of the simulation"})
    models = Models(home, Store(f"sqlite:///{home}/platform.db"))
    version = models.add(folder, {})
    models.promote(version, "to begin with")
    shutil.rmtree(folder)
    return version


def misled(tables: Tables) -> Tables:
    """The log with its clusters' names swapped: what is learned from it favours the wrong ones."""
    names = sorted(tables["clusters"]["cluster_id"])
    swap = dict(zip(names, [*names[1:], names[0]], strict=True))
    return {**tables, "runs": tables["runs"].assign(cluster_id=tables["runs"]["cluster_id"].map(swap))}


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes compute all the while, as others' work on the machine would."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@contextlib.contextmanager
def own_disk(size: int) -> Iterator[tuple[Path, bool]]:
    """A folder that is a file system of this size, and whether it is: without the right to mount, a usual one."""
    folder = Path(tempfile.mkdtemp(prefix="mfcp-faults-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True
    ).returncode
    try:
        yield folder, not mounted
    finally:
        if not mounted:
            subprocess.run(["umount", "--lazy", folder], check=True)
        shutil.rmtree(folder, ignore_errors=True)


class Suite:
    """A running platform, its faults, and an observer of what it assigns.

    Args:
        home: of the platform.
        parts: its services; they are started again when they die.
        port: of Prefect.
    """

    def __init__(self, home: Path, parts: dict[str, loop.Service], port: int) -> None:
        self.home, self.parts, self.port = home, parts, port
        self.database = home / "platform.db"
        self.store = Store(f"sqlite:///{self.database}", wait_s=0.5, make=False)
        self.models = Models(home, Store(f"sqlite:///{self.database}", make=False))
        self.held: set[str] = set()  # services that stay down for the moment
        self.rounds, self.looked = 0, 0.0
        self.seen: dict[str, tuple[int, str]] = {}
        self.broken: list[str] = []
        self.injected: Counter[str] = Counter()
        self.recovered_s: list[float] = []
        self.until_s = float("inf")  # of the monotonic clock: no more faults then

    def run(self, faults: list[Fault], rounds: int) -> None:
        """Inject one fault after each round, and go on to so many rounds."""
        self.next_round()
        for fault in faults:
            if self.looked > self.until_s:
                say("no time left for more faults")
                return
            self.wait(fault.after_s)
            begin = time.monotonic()
            try:
                told = getattr(self, f"_{fault.kind}")(fault)
            except (TimeoutError, psutil.Error) as error:
                say(f"round {self.rounds}: {fault.kind} not injected: {error}")
                continue
            self.injected[fault.kind] += 1
            seconds = self.next_round()
            self.recovered_s.append(seconds)
            lasted = time.monotonic() - begin - seconds
            say(f"round {self.rounds}: {fault.kind} {told}, {lasted:.0f} s; the next round {seconds:.1f} s later")
        while self.rounds < rounds and self.looked < self.until_s:
            self.next_round()

    def next_round(self) -> float:
        """Seconds until there is one round more."""
        begin, before = time.monotonic(), self.look()
        try:
            self.until(lambda: self.look() > before, "round", RECOVERY_S)
        except TimeoutError as error:
            self.broken.append(str(error))
        return time.monotonic() - begin

    def wait(self, seconds: float) -> None:
        """Let time pass while services are tended and assignments observed."""
        deadline = time.monotonic() + seconds
        while True:
            for name, part in self.parts.items():
                if name not in self.held:
                    part.tend(lambda line: None)
            if time.monotonic() - self.looked > 1.0:
                self.look()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.2, left))

    def until(self, found: Callable[[], R], what: str, seconds: float) -> R:
        """What is found, once it is; TimeoutError after so many seconds."""
        deadline = time.monotonic() + seconds
        while not (result := found()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {what} within {seconds:.0f} s (round {self.rounds})")
            self.wait(0.5)
        return result

    def look(self) -> int:
        """How many rounds there are; an assignment that is not as it was seen before is noted as broken."""
        self.looked = time.monotonic()
        with contextlib.suppress(MfcpError):  # locked or away at the moment
            known, rounds = self.store.assignments(), len(self.store.rounds())
            if rounds < self.rounds or len(known) < len(self.seen):
                self.broken.append(f"rounds or assignments are gone: {self.rounds} rounds before, {rounds} now")
            for task, number, cluster in known[["task_id", "round_id", "cluster_id"]].itertuples(index=False):
                if self.seen.setdefault(task, (number, cluster)) != (number, cluster):
                    self.broken.append(f"{task} was assigned in {self.seen[task]} and in {(number, cluster)}")
            self.rounds = rounds
        return self.rounds

    def ask(self, question: Callable[[Any], R]) -> R:
        """What Prefect's server answers, which may be down at the moment."""
        deadline = time.monotonic() + RECOVERY_S
        while True:
            try:
                with loop.client(self.home, self.port) as client:
                    return question(client)
            except Exception as error:  # whatever a server that dies makes of its answer
                if time.monotonic() > deadline:
                    raise TimeoutError(f"Prefect's server does not answer: {error!r}") from error
                self.wait(1.0)

    def schedule(self, every_s: dict[str, float]) -> None:
        """Have flows run every so many seconds."""
        for name, seconds in every_s.items():
            self.ask(lambda client, name=name, seconds=seconds: loop.schedule(client, name, seconds))

    def start(self, name: str, **parameters: Any) -> Any:
        """Have the worker run a flow once; its id."""

        def create(client: Any) -> Any:
            deployment = client.read_deployment_by_name(loop.FLOWS[name]).id
            return client.create_flow_run_from_deployment(deployment, parameters=parameters).id

        return self.ask(create)

    def complete(self, *names: str) -> None:
        """Have flows run now, side by side, which must end well."""
        numbers = {name: self.start(name) for name in names}

        def states() -> dict[str, Any]:
            found = {name: self.ask(lambda client, n=n: client.read_flow_run(n)).state for name, n in numbers.items()}
            return found if all(one is not None and one.is_final() for one in found.values()) else {}

        try:
            ends = self.until(states, f"end of the last {', '.join(names)}", RECOVERY_S)
            bad = {name: end for name, end in ends.items() if not end.is_completed()}
            self.broken += [f"the last {name}: {end.name} {end.message}" for name, end in bad.items()]
        except TimeoutError as error:
            self.broken.append(str(error))

    def processes(self, *words: str) -> list[psutil.Process]:
        """What the workers run at the moment whose command line has all these words."""
        found = []
        for worker in WORKERS:
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                for process in self._service(worker).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        line = " ".join(process.cmdline())
                        if all(word in line for word in words) and process.status() != psutil.STATUS_ZOMBIE:
                            found.append(process)
        return found

    def _service(self, name: str) -> psutil.Process:
        """The program of a service, whose parent is its guard."""
        part = self.parts[name].process
        assert part is not None
        return psutil.Process(part.pid).children()[0]

    def _kill_service(self, name: str) -> str:
        self.until(lambda: self._lives(name), f"service {name}", 60)
        process = self._service(name)
        process.kill()
        return f"killed ({process.pid})"

    def _lives(self, name: str) -> bool:
        with contextlib.suppress(psutil.Error, IndexError):
            return self._service(name).is_running()
        return False

    def _worker(self, fault: Fault) -> str:
        return self._kill_service(WORKERS[int(fault.draw * len(WORKERS))])

    def _server(self, fault: Fault) -> str:
        return self._kill_service("prefect")

    def _simulator(self, fault: Fault) -> str:
        return self._kill_service("simulator")

    def _mlflow(self, fault: Fault) -> str:
        self.held.add("mlflow")
        told = self._kill_service("mlflow")
        self.wait(fault.lasts_s)
        self.held.discard("mlflow")
        return told

    def _flow(self, fault: Fault) -> str:
        self.wait(6 * fault.draw)
        flows = self.until(lambda: self.processes("-m prefect.engine"), "flow to kill", 120)
        process = flows[int(fault.draw * len(flows))]
        process.kill()
        return f"killed ({process.pid})"

    def _stage(self, fault: Fault) -> str:
        process = self._training_stage(fault)
        name = process.cmdline()[-1]
        process.kill()
        return f"{name} killed ({process.pid})"

    def _training(self, fault: Fault) -> str:
        stage = self._training_stage(fault)
        flows = [one for one in stage.parents() if "-m prefect.engine" in " ".join(one.cmdline())]
        if not flows:
            raise TimeoutError(f"{stage.cmdline()[-1]} has lost its flow")
        flow = flows[0]
        flow.kill()
        return f"killed ({flow.pid}) at {stage.cmdline()[-1]}"

    def _training_stage(self, fault: Fault) -> psutil.Process:
        """A stage of a training at a random moment of its life."""
        words = ("python -m mfcp.stages.",)
        for _ in range(4):
            if not self.processes(*words):
                self.start("retrain", retry_delay_s=3)
            with contextlib.suppress(TimeoutError):  # where nothing was new, no stage runs
                self.until(lambda: self.processes(*words), "stage to kill", 60)
                self.wait(fault.draw * 6)
                if left := self.processes(*words):
                    return left[-1]
        raise TimeoutError("no stage lived long enough to be killed")

    def _retrains(self, fault: Fault) -> str:
        numbers = [self.start("retrain", retry_delay_s=3) for _ in range(2)]

        def ended() -> list[Any]:
            states = [self.ask(lambda client, n=n: client.read_flow_run(n)).state for n in numbers]
            return [one.name for one in states] if all(one and one.is_final() for one in states) else []

        try:
            # Both wait for slots of the worker behind what earlier faults have left in its queue.
            return f"at once: {', '.join(self.until(ended, 'end of two trainings', 3 * RECOVERY_S))}"
        except TimeoutError as error:
            self.broken.append(str(error))
            raise

    def _locked(self, fault: Fault) -> str:
        command = [sys.executable, "-c", LOCK, str(self.database), str(fault.lasts_s)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            if holder.stdout.readline() != "locked\n":
                raise TimeoutError("no lock within 60 s")
            before = len(self.store.rounds())
            self.until(lambda: holder.poll() is not None, "end of the lock", fault.lasts_s + 60)
        return f"by another process, {self.look() - before} rounds meanwhile"

    def _gone(self, fault: Fault) -> str:
        away = self.home / "platform.db.away"
        self.database.rename(away)
        self.wait(fault.lasts_s)
        anew = self.database.exists()
        if anew:
            self.broken.append("a database was made in place of the one that was moved away")
        away.rename(self.database)
        return "and back"

    def _corrupt(self, fault: Fault) -> str:
        version, refused = str(self.models.current()), len(self.store.events("model_refused"))
        path = self.home / "models" / version / "model.safetensors"
        content = path.read_bytes()
        place = int(fault.draw * len(content))
        with path.open("r+b") as file:
            file.seek(place)
            file.write(bytes([content[place] ^ 0xFF]))
        number = int(self.models.store.rounds(1)["round_id"].iloc[0])
        told = f"byte {place} of release {version}"

        def other() -> Any:
            made = self.models.store.rounds()
            return made[(made["round_id"] > number) & (made["version"] != version)]["version"].to_list()

        try:
            instead = self.until(other, f"round by another release than {version}, which is damaged", RECOVERY_S)
            told += f", {instead[0]} decided instead"
            if len(self.models.store.events("model_refused")) == refused:
                self.broken.append(f"release {version} was damaged, and no event says so")
        except TimeoutError as error:
            self.broken.append(str(error))
        with replacing(path) as whole:
            whole.write_bytes(content)
        return told

    def _full(self, fault: Fault) -> str:
        if not self.home.parent.is_mount():
            raise TimeoutError("no file system of its own")
        ballast = self.home.parent / "ballast"
        with ballast.open("wb") as file:
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), 2**20)
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), 2**12)
        left = shutil.disk_usage(self.home).free
        self.wait(fault.lasts_s)
        ballast.unlink()
        return f"but for {left} bytes"

    def _clock(self, fault: Fault) -> str:
        shift = 86400 * (400 if fault.draw < 0.5 else -400)
        command = [sys.executable, "-c", SHIFTED, str(self.home), str(shift)]
        namespace = ["unshare", "--time", "--monotonic", "86400", "--boottime", "86400"]
        allowed = not subprocess.run([*namespace, "true"], capture_output=True).returncode
        done = subprocess.run([*namespace, *command] if allowed else command, capture_output=True, text=True)
        if done.returncode:
            self.broken.append(f"a matcher with another clock: {done.stderr[-300:]}")
        own = sum(line.startswith("round ") for line in done.stdout.splitlines())
        return f"of a second matcher {shift / 86400:+.0f} days{', monotonic +1' if allowed else ''}, {own} rounds by it"

    def finish(self, last: Sequence[str] = LAST) -> None:
        """No more tasks and no more faults: what is left must be done by the next run of each of these flows."""
        self.held.add("simulator")
        simulator = self.parts["simulator"].process
        assert simulator is not None
        guard.stop(simulator)
        self.schedule(dict.fromkeys(loop.FLOWS, 0.0))
        try:  # a flow's lock is not waited for as long as a training may take
            self.until(lambda: not self.processes("-m prefect.engine"), "end of what still runs", 2 * RECOVERY_S)
        except TimeoutError as error:
            self.broken.append(str(error))
        self.complete(*last[:2])
        for name in last[2:]:
            self.complete(name)  # monitor last: it sends what the others have left for MLflow
        self.look()


def half_written(home: Path) -> list[str]:
    """What is under a name that others read, and not whole: releases, deliveries, the log and its version."""
    found = []
    repo = home / "repo"

    def attempt(what: str, check: Callable[[], Any]) -> None:
        try:
            check()
        except MfcpError as error:
            found.append(f"{what}: {error}")

    def version() -> None:
        if "up to date" not in workspace.dvc(repo, "status", f"{LOG}.dvc"):
            raise MfcpError("the log is not the version that DVC knows")
        if dirty := workspace.git(repo, "status", "--porcelain"):
            raise MfcpError(f"git knows another state: {dirty}")

    for folder in visible(home / "models"):
        attempt(f"release {folder.name}", lambda folder=folder: verify(folder))
    for item in [*visible(home / "inbox"), *(one for own in visible(home / "archive") for one in visible(own))]:
        attempt(f"delivery {item}", lambda item=item: read_delivery(item))
    attempt("log", lambda: read_tables(repo / LOG))
    attempt("version of the log", version)
    attempt("state of the simulation", lambda: read_json(home / "simulator.json"))
    return found


def visible(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def account(home: Path) -> dict[str, Any]:
    """What became of every task, by the files themselves.

    Returns:
        `in` (tasks submitted), `once`, `twice`, `lost` (submitted, but neither assigned nor set aside), `aside`,
        `half` (see `half_written`), `rounds`, and `wrong`: what else does not fit.
    """
    simulated = read_json(home / "simulator.json")
    with contextlib.closing(sqlite3.connect(home / "platform.db")) as connection:

        def column(query: str) -> list[Any]:
            return [row[0] for row in connection.execute(query)]

        known, aside = column("SELECT task_id FROM tasks"), column("SELECT task_id FROM tasks WHERE set_aside NOTNULL")
        assigned = Counter(column("SELECT task_id FROM assignments"))
        (integrity,) = column("PRAGMA integrity_check")
        (rounds,), (planned,) = column("SELECT count(*) FROM rounds"), column("SELECT sum(tasks) FROM rounds")
        (waiting,) = column("SELECT count(*) FROM outbox WHERE delivered_at IS NULL")
    submitted = {number_of(task) for task in known}
    lost = set(known) - set(assigned) - set(aside)
    lost |= {f"number {n}" for n in range(simulated["submitted"]) if n not in submitted}
    runs = read_tables(home / "repo" / LOG)["runs"]
    trials = settings(home).section("platform").simulator.trial_runs
    back = runs[runs["task_id"].map(number_of).ge(0) & (runs["attempt"] == trials + 1)]
    elsewhere = back.groupby("task_id")["cluster_id"].nunique().gt(1).sum()
    with contextlib.closing(sqlite3.connect(home / "mlruns" / "mlflow.db")) as connection:
        tracked, steps = connection.execute(
            "SELECT count(*), count(DISTINCT step) FROM metrics WHERE key = 'round.tasks'"
        ).fetchone()
    facts = {
        f"integrity of the database: {integrity}": integrity == "ok",
        f"the rounds say {planned} tasks, {len(assigned)} are assigned": planned == sum(assigned.values()),
        f"{simulated['back']} runs were logged, {len(back)} are in the log": simulated["back"] == len(back),
        f"{elsewhere} tasks ran on two clusters": not elsewhere,
        f"{waiting} notes still wait for MLflow": not waiting,
        f"MLflow has {tracked} points at {steps} steps for {rounds} rounds": tracked == steps == rounds,
        f"{len(visible(home / 'inbox'))} deliveries are left in the inbox": not visible(home / "inbox"),
        f"{len(visible(home / 'quarantine'))} are in quarantine": not visible(home / "quarantine"),
    }
    return {
        "in": len(set(known)),
        "once": sum(count == 1 for count in assigned.values()),
        "twice": sum(count > 1 for count in assigned.values()) + int(elsewhere),
        "lost": len(lost),
        "aside": len(aside),
        "half": half_written(home),
        "rounds": rounds,
        "wrong": [fact for fact, holds in facts.items() if not holds],
    }


def say(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {text}", flush=True)


SIMULATOR = {
    "families": ["distilbert", "mobilenet_v2"], "newcomers": [], "history": 60, "speed": 600.0, "per_hour": 3.0,
    "clusters": ["north-k80x8", "meridian-a10x4", "harbour-v100x2"], "trial_clusters": 2, "trial_runs": 2,
    "delivery_hours": 4.0, "degraded": "", "days_between_outages": 20.0,
}  # fmt: skip
PLATFORM = {"simulator": SIMULATOR, "promote": {"rounds": 60, "tasks": 5, "resamples": 400}}


def inject(
    folder: Path,
    faults: list[Fault],
    rounds: int,
    every_s: dict[str, float],
    *,
    minutes: float = float("inf"),
    last: Sequence[str] = LAST,
) -> tuple[Suite, dict[str, Any]]:
    """Run a platform through faults.

    Args:
        folder: where it lives.
        faults: in this order, as many as the time allows.
        rounds: at least.
        every_s: flow → seconds between its scheduled runs.
        minutes: no new fault after so long.
        last: flows that must complete in the end.

    Returns:
        What was injected, and what became of every task (see `account`).
    """
    checkout, home = small_platform(folder, PLATFORM)
    history = World(settings(home).section("platform").simulator, home / "simulator").history()
    for tables in (misled(history), history):
        first_champion(home, tables)
    port, mlflow_port = service.free_ports(2)
    with loop.platform(checkout, home, port, mlflow_port, say) as (parts, _):
        suite = Suite(home, parts, port)
        suite.until_s = time.monotonic() + 60 * minutes
        suite.schedule(every_s)
        suite.start("ingest")
        suite.run(faults, rounds)
        suite.finish(last)
    return suite, account(home)


def summary(suite: Suite, found: dict[str, Any]) -> str:
    """The line that the run ends with."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(suite.injected.items()))
    later = suite.recovered_s or [0.0]
    return (
        f"{suite.injected.total()} faults ({kinds}) in {found['rounds']} rounds; tasks in {found['in']}, assigned once "
        f"{found['once']}, twice {found['twice']}, lost {found['lost']}, set aside {found['aside']}; half-written "
        f"files {len(found['half'])}; next round after a fault: median {np.median(later):.1f} s, at most "
        f"{max(later):.1f} s; the machine's load at the end {os.getloadavg()[2]:.1f}"
    )


def failures(suite: Suite, found: dict[str, Any]) -> list[str]:
    """Every invariant that does not hold."""
    counts = {"tasks assigned twice": found["twice"], "tasks lost": found["lost"], "tasks set aside": found["aside"]}
    unequal = [f"{count} {name}" for name, count in counts.items() if count]
    return [*unequal, *found["half"], *found["wrong"], *suite.broken]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, metavar="N", help="at least (50)")
    parser.add_argument("--seed", type=int, default=0, help="of the faults (0)")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), help="only these faults")
    parser.add_argument("--match-s", type=float, default=8.0, metavar="S", help="seconds between rounds (8)")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="M", help="no new fault after so long")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="processes that compute beside it (0)")
    parser.add_argument("--within", type=float, default=RECOVERY_S, metavar="S", help="of a round after a fault (300)")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="keep what the services print")
    options = parser.parse_args()
    kinds = {kind: KINDS[kind] for kind in options.kinds}
    faults = plan(options.seed, max(1, 3 * options.rounds // 5), kinds)
    with own_disk(DISK) as (folder, mounted):
        if not mounted:
            say("no right to mount a file system: the disk is not filled")
        every_s = {"match": options.match_s, "ingest": 30.0, "retrain": 150.0, "monitor": 90.0}
        try:
            with busy(options.load):
                suite, found = inject(folder, faults, options.rounds, every_s, minutes=options.minutes)
        finally:
            if options.logs:
                shutil.copytree(folder / "home" / "logs", options.logs, dirs_exist_ok=True)
    late = [seconds for seconds in suite.recovered_s if seconds > options.within]
    wrong = [*failures(suite, found), *(f"a round {seconds:.0f} s after a fault" for seconds in late)]
    for line in wrong:
        print(f"broken: {line}")
    print(f"\n{summary(suite, found)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started and mounted ends, too
    sys.exit(main())
