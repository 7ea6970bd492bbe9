"""Faults of every part of a Slurm, and kill -9 of the platform's own process at every point, while tasks run.

    python benchmarks/executors.py chaos [--seeds 0,1,2,3,4] [--tasks 20] [--naive]

Called by that program; by itself it is the process that is killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from flows.slurm import OwnCluster, OwnSlurm
from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import TASKS
from mfcp.errors import MfcpError
from mfcp.executors.slurm import Slurm
from mfcp.executors.spool import Spool
from mfcp.platform.running import runner as runner_module
from mfcp.platform.running.following import is_compared
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings
from mfcp.platform.running.runner import Runner
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store

CLUSTERS = ("alpha", "beta")
LONGEST_S = 600.0  # of a seed
NEEDS = {"slurmdbd": ("mariadbd",), "slurmctld": ("mariadbd", "slurmdbd")}  # as they start
PATIENCE_S = 60.0  # with nodes that come back, at its end
PARTS = 5
COMPARE = 0.2  # share of tasks that run on a second cluster once they are done
# What the platform's process does from an assignment to its delivery; it is killed before and after each.
POINTS = [
    f"{name}:{moment}"
    for name in (
        "Attempts.plan", "Attempts.intend", "Spool.place", "Slurm.submit", "Attempts.hand", "Slurm.release",
        "Attempts.begin", "Slurm.watch", "Slurm.health", "Attempts.finish", "Attempts.undelivered",
        "runner.deliver_runs", "Attempts.deliver", "Attempts.fence", "Slurm.cancel", "Slurm.collect",
    )
    for moment in ("before", "after")
]  # fmt: skip
RARE = ("Attempts.fence", "Slurm.cancel", "Slurm.collect")  # only where something has gone wrong
OWNERS = {"Attempts": Attempts, "Spool": Spool, "Slurm": Slurm, "runner": runner_module}
FAULTS = (
    "slurmctld", "slurmctld", "slurmd", "slurmd away", "slurmstepd", "slurmdbd", "mariadbd", "drain", "scancel",
    "scancel", "full spool", "full receipts",
)  # fmt: skip
# Writes when it begins, lives and ends, so that two that overlap are seen; fails, hangs or is fine by its name.
TASK = """
say() {{ echo "{task_id} {attempt} $1 $(date +%s.%N)" >> {ledger}; }}
say begin
n=0; while [ $n -lt {ticks} ]; do sleep 0.2; say tick; n=$((n+1)); done
[ {how} = fail ] && exit 3
say end
"""


@dataclass
class Outcome:
    """What a seed came to.

    Attributes:
        seed: its number.
        tasks: how many there were.
        took_s: seconds.
        points, faults: what was killed or broken, how often.
        attempts: how they ended.
        findings: what must not be.
        resumed: nodes that the harness, as an operator, brought back.
    """

    seed: int
    tasks: int
    took_s: float = 0.0
    points: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    resumed: int = 0


class Home:
    """A platform's folder with tasks that are assigned one after the other."""

    def __init__(self, folder: Path, slurm: OwnSlurm) -> None:
        self.folder, self.slurm, self.ledger = folder, slurm, folder / "ledger"
        folder.mkdir()
        self.ledger.touch()
        self.url = f"sqlite:///{folder / 'platform.db'}"
        self.store = Store(self.url)
        self.attempts = Attempts(self.store)
        self.count = 0
        self.expected: dict[str, str] = {}

    def assign(self, rng: random.Random) -> None:
        """One more task, matched to a cluster."""
        how = "fail" if self.count % 7 == 3 else "hang" if self.count % 11 == 5 else "fine"
        task = f"t{self.count:02d}"
        ticks = 200 if how == "hang" else rng.randint(2, 12)
        row = {column.name: None for column in TASKS.columns} | {"task_id": task, "family": how, "batch_size": ticks}
        self.store.submit({"tasks": coerce(TASKS, pd.DataFrame([row], dtype=object)).frame})
        cell = {"task_id": task, "cluster_id": CLUSTERS[self.count % 2], "seconds": 2.0, "reliability": 0.9}
        plan = pd.DataFrame([cell]).assign(seconds_low=1.0, seconds_high=3.0, reliability_low=0.8, reliability_high=1.0)
        self.store.assign({"version": "chaos", "tasks": 1}, plan)
        self.expected[task] = how
        self.count += 1

    def open(self) -> int:
        """Assigned tasks that are not over."""
        return len(self.attempts.assigned(CLUSTERS)) + len(self.attempts.open())


def settings(ledger: Path) -> JobSettings:
    """How tasks run: short limits, quick looks."""
    told = TASK.replace("{ledger}", str(ledger)).replace("{ticks}", "{batch_size}").replace("{how}", "{family}")
    return JobSettings.model_validate(
        {"command": told, "seconds": 15.0, "memory_bytes": 200 << 20, "deliver_s": 1.0, "health_s": 2.0,
         "books_s": 20.0, "move_s": 4.0, "compare": COMPARE,
         "retry": {"times": 6, "after": ["oom", "cancelled", "node_fail", "lost"]}}
    )  # fmt: skip


# The process that is killed.


def drive(folder: Path, confs: dict[str, str], point: str, naive: bool) -> None:
    """Run what is assigned until killed: at a point, or by the harness."""
    if naive:
        Naive(folder, confs, point).run()
    if point:
        _arm(point)
    executors = {
        name: {"kind": "slurm", "folder": str(folder / f"spool-{name}"), "conf": conf, "timeout_s": 10.0}
        for name, conf in confs.items()
    }
    clusters = {name: ClusterSettings(executor=executor) for name, executor in executors.items()}
    runner = Runner(folder, Store(f"sqlite:///{folder / 'platform.db'}"), clusters, settings(folder / "ledger"))
    while True:
        runner.step()
        time.sleep(0.25)


def _arm(point: str) -> None:
    """Kill this process at the first call of a function, before or after what it does."""
    name, moment = point.split(":")
    owner, function = name.split(".")
    whole = getattr(OWNERS[owner], function)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = whole(*args, **kwargs)
        if function in ("plan", "begin", "deliver_runs") and not result and function != "begin":
            return result  # it had nothing to do
        if function == "undelivered" and not result[1]:
            return result
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(OWNERS[owner], function, wrapped)


class Naive:
    """What one writes first: submit, note the id, ask for the id, submit again what is gone or has failed."""

    def __init__(self, folder: Path, confs: dict[str, str], point: str) -> None:
        self.folder, self.confs, self.point = folder, confs, point
        self.database = sqlite3.connect(folder / "naive.db", isolation_level=None, timeout=30)
        self.database.execute(
            "create table if not exists jobs(task text, number int, cluster text, job text, state text)"
        )
        self.attempts = Attempts(Store(f"sqlite:///{folder / 'platform.db'}"))

    def run(self) -> None:
        """Until killed."""
        while True:
            known = {row[0] for row in self.database.execute("select task from jobs")}
            for row in self.attempts.assigned(CLUSTERS):
                if row["task_id"] not in known:
                    self._submit(row["task_id"], 1, row["cluster_id"], row["row"])
            for task, number, cluster, job in list(
                self.database.execute("select task, number, cluster, job from jobs where state = 'open'")
            ):
                with suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
                    self._look(task, number, cluster, job)
            time.sleep(0.25)

    def _submit(self, task: str, number: int, cluster: str, row: dict[str, Any]) -> None:
        text = settings(self.folder / "ledger").command.format(**{**row, "task_id": task, "attempt": number})
        with suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            job = self._run(cluster, ["sbatch", "--parsable", "--time=1", "--mem=200M", "--output=/dev/null",
                                      f"--job-name={task}"], f"#!/bin/sh\n{text}").strip()  # fmt: skip
            if self.point == "Slurm.submit:after":
                os.kill(os.getpid(), signal.SIGKILL)
            self.database.execute("insert into jobs values(?,?,?,?,'open')", (task, number, cluster, job))

    def _look(self, task: str, number: int, cluster: str, job: str) -> None:
        state = self._run(cluster, ["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"]).strip()
        if state in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
            return
        self.database.execute("update jobs set state = ? where task = ? and number = ?", (state, task, number))
        if state != "COMPLETED" and number < 5:
            (row,) = sqlite3.connect(self.folder / "platform.db").execute(
                "select row from tasks where task_id=?", (task,)
            )
            self._submit(task, number + 1, CLUSTERS[(CLUSTERS.index(cluster) + 1) % 2], json.loads(row[0]))

    def _run(self, cluster: str, words: list[str], text: str = "") -> str:
        environment = {**os.environ, "SLURM_CONF": self.confs[cluster]}
        return subprocess.run(
            words, env=environment, input=text, text=True, capture_output=True, check=True, timeout=10
        ).stdout


# The harness.


class SmallDisk:
    """A file system of a few MiB over a folder, which can be filled; only root may make one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs", str(folder)]
        self.there = os.getuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        """No byte is left."""
        with suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """There is room again."""
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        """Take it away."""
        if self.there:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)


class Chaos:
    """One seed: tasks, kills of the driver at its share of the points, and faults of the clusters meanwhile."""

    def __init__(self, seed: int, tasks: int, root: Path, points: list[str], naive: bool) -> None:
        self.rng, self.root, self.naive, self.total = random.Random(seed), root, naive, tasks
        self.outcome, self.points = Outcome(seed, tasks), points
        self.driver: subprocess.Popen[bytes] | None = None
        self.later: list[tuple[float, Any]] = []  # what mends a fault, and when
        self.away: set[str] = set()  # daemons that are to be started again

    def run(self) -> Outcome:
        """Until all tasks are over."""
        self.root.mkdir(parents=True)
        home = self.root / "home"
        with OwnSlurm(self.root / "slurm", [OwnCluster(name, cpus=2) for name in CLUSTERS]) as self.slurm:
            self.home = Home(home, self.slurm)
            self.disks = {"full receipts": SmallDisk(home / "spool-beta"), "full spool": SmallDisk(self._spool_disk())}
            try:
                if self.disks["full spool"].there:
                    self.slurm.kill("slurmd-alpha1")
                    self.slurm.start("slurmd-alpha1")
                begin = time.monotonic()
                self._play(begin)
                self.outcome.took_s = time.monotonic() - begin
                jobs = self._settled()
                self._stop_driver()
                self.outcome.findings += [f"left in the queue: {job}" for job in jobs]
                self._check()
            finally:
                self._stop_driver()
                for disk in self.disks.values():
                    disk.close()
        return self.outcome

    def _spool_disk(self) -> Path:
        return self.root / "slurm" / "alpha" / "spool-alpha1"

    def _play(self, begin: float) -> None:
        points = list(self.points)
        per_point = max(1, self.total // max(1, len(points)))
        quiet, armed, since = 0, "", time.monotonic()
        next_fault = pushed = time.monotonic() + 2.0
        while time.monotonic() - begin < LONGEST_S:
            now = time.monotonic()
            if self.driver is None or self.driver.poll() is not None:
                if armed and self.driver is not None:
                    self.outcome.points[armed] += 1
                armed, since = points.pop(0) if points else "", now
                for _ in range(per_point if armed else self.total):
                    if self.home.count < self.total:
                        self.home.assign(self.rng)
                self._start_driver(armed)
                pushed = now
            elif armed and now - since > (150.0 if armed.split(":")[0] in RARE else 40.0):
                armed = ""  # it was not on the way: go on as it is
                self._stop_driver()
            if armed.split(":")[0] in RARE and now - pushed > 2.0:
                self._push(armed)
                pushed = now
            if now > next_fault and (self.home.count < self.total or self.home.open()):
                self._break(self.rng.choice(FAULTS))
                next_fault = now + self.rng.uniform(1.5, 4.0)
            self._mend(now)
            self._operate()
            done = not points and not armed and self.home.count >= self.total and self._over()
            quiet = quiet + 1 if done else 0
            if quiet > 8 and not self.later:
                return
            time.sleep(0.25)
        self.outcome.findings.append(f"not over after {LONGEST_S:g} s: {self._what_is_open()}")

    def _over(self) -> bool:
        if not self.naive:
            return not self.home.open()
        with suppress(sqlite3.OperationalError):
            database = sqlite3.connect(self.home.folder / "naive.db", timeout=30)
            tasks = database.execute("select count(distinct task) from jobs").fetchone()[0]
            return bool(
                tasks >= self.total and not database.execute("select 1 from jobs where state='open'").fetchone()
            )
        return False

    def _what_is_open(self) -> list[tuple[Any, ...]]:
        return [
            (row["task_id"], row["number"], row["cluster_id"], row["state"], row["job"], row["fenced_at"])
            for row in self.home.attempts.open()
        ]

    def _start_driver(self, point: str) -> None:
        confs = json.dumps({name: str(self.slurm.conf(name)) for name in CLUSTERS})
        with (self.root / "driver.log").open("ab") as log:
            self.driver = subprocess.Popen(
                [sys.executable, __file__, str(self.home.folder), confs, point, str(int(self.naive))],
                stdout=log, stderr=log, env={**os.environ, "PATH": self.slurm.environment()["PATH"]},
            )  # fmt: skip

    def _stop_driver(self) -> None:
        if self.driver is not None and self.driver.poll() is None:
            self.driver.kill()
            self.driver.wait()

    def _break(self, fault: str) -> None:
        """Break something, and plan when it is mended."""
        slurm, cluster, now = self.slurm, self.rng.choice(CLUSTERS), time.monotonic()
        daemon = {
            "slurmctld": f"slurmctld-{cluster}",
            "slurmd": f"slurmd-{cluster}1",
            "slurmd away": f"slurmd-{cluster}1",
        }
        if fault in ("slurmctld", "slurmd", "slurmd away", "slurmdbd", "mariadbd"):
            name = daemon.get(fault, fault)
            process = slurm.processes.get(name)
            if process is None or process.poll() is not None:
                return
            slurm.kill(name)
            self._start_later(name, now + (25.0 if fault == "slurmd away" else self.rng.uniform(0.0, 2.0)))
        elif fault == "slurmstepd":
            steps = list(slurm.stepds())
            if not steps:
                return
            os.kill(self.rng.choice(steps), signal.SIGKILL)
        elif fault == "drain":
            slurm.run(cluster, "scontrol", "update", f"nodename={cluster}1", "state=drain", "reason=chaos", check=False)
        elif fault == "scancel":
            told = slurm.run(cluster, "squeue", "-h", "-r", "-t", "R", "-o", "%i", check=False).stdout.split()
            if not told:
                return
            slurm.run(cluster, "scancel", self.rng.choice(told), check=False)
        else:
            disk = self.disks[fault]
            if not disk.there or (disk.folder / "filler").exists():
                return
            disk.fill()
            self.later.append((now + 4.0, disk.free))
        self.outcome.faults[fault] += 1

    def _push(self, point: str) -> None:
        """Bring about what a point is on the way of: a task that is cancelled, a job that was ended by somebody."""
        if point.startswith("Slurm.collect"):
            self._break("scancel")
        elif living := [row["task_id"] for row in self.home.attempts.open() if not row["cancelled"]]:
            self.home.expected[living[-1]] = "cancelled"
            self.home.attempts.cancel(living[-1:])

    def _start_later(self, name: str, at: float) -> None:
        self.away.add(name)
        self.later.append((at, partial(self._start_again, name)))

    def _start_again(self, name: str) -> None:
        self.slurm.start(name)
        self.away.discard(name)

    def _mend(self, now: float) -> None:
        for name, process in self.slurm.processes.items():
            if name not in self.away and process.poll() is not None:
                self._start_later(name, now)  # as slurmdbd, which ends if the database goes away as it starts
        for at, mend in list(self.later):
            if now > at and not self._needs_more(mend):
                self.later.remove((at, mend))
                try:
                    mend()
                except MfcpError:  # of a part that needs another, which is away as well
                    self.later.append((now + 1.0, mend))

    def _needs_more(self, mend: Any) -> bool:
        """Whether a daemon would wait for one that is away, which nobody would bring back meanwhile."""
        kind = mend.args[0].partition("-")[0] if isinstance(mend, partial) else ""
        return any(name in self.away for name in NEEDS.get(kind, ()))

    def _operate(self) -> None:
        """As an operator who brings nodes back a few seconds after they were drained."""
        for cluster in CLUSTERS:
            told = self.slurm.run(cluster, "sinfo", "-h", "-N", "-o", "%T|%H|%E", check=False).stdout.strip()
            if told.startswith(("drain", "down")) and self.rng.random() < 0.05:
                done = self.slurm.run(
                    cluster, "scontrol", "update", f"nodename={cluster}1", "state=resume", check=False
                )  # fmt: skip
                self.outcome.resumed += done.returncode == 0

    def _check(self) -> None:
        findings, expected = self.outcome.findings, self.home.expected
        begins, last, ends = read_ledger(self.home.ledger)
        findings += [f"{task} attempt {n} began {count} times" for (task, n), count in begins.items() if count > 1]
        for task in expected:
            own = sorted(n for name, n in begins if name == task)
            for before, after in pairwise(own):
                if last[task, before][1] > last[task, after][0]:
                    findings.append(f"{task} attempts {before} and {after} overlap")
        for task, how in expected.items():
            count = sum(ends[key] for key in ends if key[0] == task)
            if count > self._times(task):
                findings.append(f"{task} was done {count} times")
            if how == "fine" and not count and (self.naive or not self._reported(task)):
                findings.append(f"{task} was lost")
        if not self.naive:
            self._check_table(begins)
        if left := list(running(str(self.home.folder))):
            findings.append(f"processes are left: {left}")

    def _times(self, task: str) -> int:
        """How often a task may be done."""
        return 1 + (not self.naive and is_compared(task, COMPARE))

    def _settled(self) -> list[str]:
        """Jobs that stay in queues; a node that was away tells late that one is over."""
        deadline = time.monotonic() + PATIENCE_S
        while (jobs := self._left()) and time.monotonic() < deadline:
            if self.driver is not None and self.driver.poll() is not None:
                self._start_driver("")
            self._operate()
            time.sleep(1.0)
        return jobs

    def _left(self) -> list[str]:
        """The platform's jobs that are not over."""
        told = [self.slurm.run(name, "squeue", "-h", "-r", "-o", "%j|%T|%r", check=False).stdout for name in CLUSTERS]
        return [line for text in told for line in text.splitlines() if line.startswith("mfcp-")]

    def _reported(self, task: str) -> bool:
        rows = self.home.attempts.of([task])
        return bool(rows) and rows[-1]["state"] == "over" and bool(rows[-1]["why"])

    def _check_table(self, begins: Counter[tuple[str, int]]) -> None:
        findings, rows = self.outcome.findings, self.home.attempts.of()
        self.outcome.attempts.update(row["status"] or row["state"] for row in rows)
        for row in rows:
            if row["status"] == "succeeded" and not begins[row["task_id"], row["number"]]:
                findings.append(f"{row['task_id']} attempt {row['number']} succeeded and never began")
            if row["state"] == "over" and row["status"] != "succeeded" and not row["why"]:
                findings.append(f"{row['task_id']} attempt {row['number']} has no reason: {row}")
            if row["state"] == "over" and row["begun_at"] is not None and not row["delivered"]:
                findings.append(f"{row['task_id']} attempt {row['number']} was not delivered")
        for task, how in self.home.expected.items():
            ends = [(row["cluster_id"], row["status"]) for row in rows if row["task_id"] == task]
            own, good = [status for _, status in ends], [cluster for cluster, status in ends if status == "succeeded"]
            later = own[own.index("succeeded") + 1 :] if good else []
            if len(set(good)) < len(good) or len([end for end in later if end != "lost"]) >= self._times(task):
                findings.append(f"{task} goes on after it succeeded: {ends}")
            if how in ("fail", "hang") and "succeeded" in own:
                findings.append(f"{task} cannot succeed and did")


def read_ledger(
    path: Path,
) -> tuple[Counter[tuple[str, int]], dict[tuple[str, int], tuple[float, float]], Counter[tuple[str, int]]]:
    """How often each attempt began, when it lived, first and last, and how often it came to its end."""
    begins, ends, life = (
        Counter[tuple[str, int]](),
        Counter[tuple[str, int]](),
        dict[tuple[str, int], tuple[float, float]](),
    )
    for line in path.read_text().splitlines():
        task, number, what, at = line.split()
        key, moment = (task, int(number)), float(at)
        begins[key] += what == "begin"
        ends[key] += what == "end"
        first, latest = life.get(key, (moment, moment))
        life[key] = (min(first, moment), max(latest, moment))
    return begins, life, Counter({key: count for key, count in ends.items() if count})


def running(marker: str) -> Iterator[int]:
    """Supervisors and tasks of a folder that still run."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            if marker in words and "executors_chaos" not in words and int(entry.name) != os.getpid():
                yield int(entry.name)


if __name__ == "__main__":
    drive(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], sys.argv[4] == "1")
