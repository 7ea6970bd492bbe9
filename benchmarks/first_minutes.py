"""What a stranger waits for: his first `make run`, the first call of each command, and the calls after it.

    python benchmarks/first_minutes.py                   a clone of HEAD with nothing compiled, once; some ten minutes
    python benchmarks/first_minutes.py --repeat 5        medians of five
    python benchmarks/first_minutes.py --only calls      or pipeline, platform
    python benchmarks/first_minutes.py --at REVISION     of another commit, with this environment's packages

Packages are those of the environment that runs this; set-up is not counted. The pipeline runs in the clone, each stage
through a Python that writes down what it took. A first call of a command has an empty cache of its own; warm calls
follow on it, when what it has had compiled in the background is done too. The platform is that of `make platform`,
timed to the first round in its database. Processor seconds are those of the whole machine meanwhile, since stages have
helpers that nobody waits for: let nothing else run.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from flows.service import free_ports  # noqa: E402

PARTS = ("pipeline", "calls", "platform")
GOALS = {  # seconds; of the pipeline also processor seconds
    "make run": 150, "match, first": 10, "simulate, first": 10, "solve, first": 10, "serve, first": 8,
    "match, warm": 2.5, "serve, warm": 4, "make run, nothing to do": 2.5, "platform, first round": 75,
}  # fmt: skip
CPU_GOALS = {"make run": 200}
TIMED = """#!{python} -IS
import os, subprocess, sys, time

{clock}

start, before = time.time(), processor_seconds()
status = subprocess.call([{python!r}, *sys.argv[1:]])
if "mfcp.stages" in "".join(sys.argv):
    name = " ".join(sys.argv[2:]).removeprefix("mfcp.stages.")
    with open({log!r}, "a") as log:
        log.write(f"{{name}}\\t{{time.time() - start}}\\t{{processor_seconds() - before}}\\n")
sys.exit(status)
"""
Took = dict[str, list[tuple[float, float]]]  # of what → seconds, processor seconds


class Checkout:
    """A clone of a revision, run by this environment's Python, with a cache of compiled kernels of its own."""

    def __init__(self, folder: Path, revision: str) -> None:
        self.path, self._caches = folder / "checkout", folder / "caches"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.path)], check=True)
        subprocess.run(["git", "-C", str(self.path), "checkout", "--quiet", "--detach", revision], check=True)
        self.forget()

    def forget(self) -> None:
        """Nothing is compiled any more."""
        shutil.rmtree(self._caches, ignore_errors=True)
        self._caches.mkdir()

    def environment(self, *first: Path) -> dict[str, str]:
        """Variables of a process of it; programs of `first` come before all others."""
        path = [*map(str, first), str(Path(sys.executable).parent), os.environ["PATH"]]
        return {
            **os.environ,
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": str(self.path / "src"),
            "XDG_CACHE_HOME": str(self._caches),
        }

    def settle(self) -> None:
        """Wait until nothing is compiled any more in the background."""
        while any("compile_modules" in " ".join(own.info["cmdline"] or ()) for own in psutil.process_iter(["cmdline"])):
            time.sleep(0.2)

    def run(self, *command: str, first: tuple[Path, ...] = ()) -> tuple[float, float]:
        """Seconds and processor seconds of a command that must succeed."""
        start, before = time.perf_counter(), processor_seconds()
        done = subprocess.run(command, cwd=self.path, env=self.environment(*first), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(
                f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return time.perf_counter() - start, processor_seconds() - before


def processor_seconds() -> float:
    """What all processes of this machine took since it started."""
    with open("/proc/stat") as stat:
        return sum(map(int, stat.readline().split()[1:4])) / os.sysconf("SC_CLK_TCK")


def mfcp(*arguments: str) -> tuple[str, ...]:
    """A call of the command."""
    return (sys.executable, "-m", "mfcp.cli", *arguments)


def pipeline(checkout: Checkout, took: Took) -> None:
    """`make run`, and once more with nothing to do."""
    checkout.forget()
    for name in ("data", ".dvc/tmp", ".dvc/cache"):
        shutil.rmtree(checkout.path / name, ignore_errors=True)
    subprocess.run(["git", "-C", str(checkout.path), "checkout", "--quiet", "--", "."], check=True)
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log"
        shim = Path(name) / "python"
        shim.write_text(TIMED.format(python=sys.executable, log=str(log), clock=inspect.getsource(processor_seconds)))
        shim.chmod(0o755)
        run = checkout.run("dvc", "repro", first=(Path(name),))
        table = checkout.run(*mfcp("table", "data/reports/metrics.json"))
        for line in log.read_text().splitlines():
            stage, seconds, used = line.split("\t")
            took[f"  {stage}"].append((float(seconds), float(used)))
    took["make run"].append((run[0] + table[0], run[1] + table[1]))
    took["make run, nothing to do"].append(checkout.run("dvc", "repro"))
    changed = subprocess.run(["git", "-C", str(checkout.path), "status", "--short"], capture_output=True, text=True)
    print(f"git status: {changed.stdout.strip() or 'clean'}", file=sys.stderr, flush=True)


def calls(checkout: Checkout, took: Took) -> None:
    """The first call of each command, each with nothing compiled, and a second one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks, trace = folder / "tasks.csv", folder / "trace.csv"
        write_inputs(checkout, folder)
        release = ["--model", str(checkout.path / "data/release")]
        commands = {
            "match": mfcp("match", *release, "--tasks", str(tasks), "--out", str(folder / "plan.csv")),
            "simulate": mfcp(
                *("simulate", "--trace", str(trace), "--cluster", "8x8"),
                *("--policy", "fifo,srsf,las", "--out", str(folder / "out")),
            ),
            "solve": mfcp(
                "solve", "--times", str(folder / "T.csv"), "--reliability", str(folder / "A.csv"), "--gamma", "0.8"
            ),
            "mfcp --help": mfcp("--help"),
        }  # fmt: skip
        for label, command in commands.items():
            checkout.forget()
            for when in ("first", "warm"):
                took[f"{label}, {when}"].append(checkout.run(*command))
                checkout.settle()
        checkout.forget()
        for when in ("first", "warm"):
            took[f"serve, {when}"].append(serving(checkout, release))
            checkout.settle()


def write_inputs(checkout: Checkout, folder: Path) -> None:
    """Tasks of the checkout's log, a trace of 200 jobs, and two matrices of 3 × 5."""
    import pandas as pd

    rng = np.random.default_rng(0)
    pd.read_parquet(checkout.path / "data/raw/tasks.parquet").head(5).to_csv(folder / "tasks.csv", index=False)
    submit = rng.exponential(60, 200).cumsum().round(1)
    columns = {"submit": submit, "duration": rng.lognormal(6, 1, 200).round(1), "gpus": rng.choice([1, 2, 4], 200)}
    pd.DataFrame(columns).to_csv(folder / "trace.csv", index=False)
    np.savetxt(folder / "T.csv", rng.uniform(10, 100, (3, 5)), delimiter=",")
    np.savetxt(folder / "A.csv", rng.uniform(0.7, 1, (3, 5)), delimiter=",")


def serving(checkout: Checkout, release: list[str]) -> tuple[float, float]:
    """Until the service says that it is ready."""
    (port,), before = free_ports(1), processor_seconds()
    with started(checkout, *mfcp("serve", *release, "--port", str(port))) as (process, start):
        while not healthy(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None:
                raise RuntimeError(f"mfcp serve ended with {process.returncode}")
            time.sleep(0.02)
        seconds = time.perf_counter() - start
    return seconds, processor_seconds() - before


def healthy(url: str) -> bool:
    """Whether it answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def platform(checkout: Checkout, took: Took) -> None:
    """`make platform` until a round is in its database."""
    checkout.forget()
    with tempfile.TemporaryDirectory() as name:
        home, before = Path(name) / "home", processor_seconds()
        prefect, mlflow = map(str, free_ports(2))
        variables = {"PREFECT_PORT": prefect, "MLFLOW_PORT": mlflow, "MFCP_HOME": str(home)}
        with started(checkout, sys.executable, "-m", "flows.loop", **variables) as (process, start):
            while not rounds(home / "platform.db"):
                if process.poll() is not None:
                    raise RuntimeError(f"flows.loop ended with {process.returncode}")
                if time.perf_counter() - start > 600:
                    raise RuntimeError("no round for ten minutes")
                time.sleep(0.2)
            seconds = time.perf_counter() - start
    took["platform, first round"].append((seconds, processor_seconds() - before))


def rounds(database: Path) -> int:
    """How many rounds the platform has decided."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=1)) as connection:
            return int(connection.execute("SELECT count(*) FROM rounds").fetchone()[0])
    except sqlite3.OperationalError:  # no file, or no table yet
        return 0


@contextlib.contextmanager
def started(checkout: Checkout, *command: str, **variables: str):  # type: ignore[no-untyped-def]
    """A process of the checkout and when it began; it and its children end with the block."""
    with open(checkout.path.parent / "output", "w") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=checkout.path, env=checkout.environment() | variables, stdout=output, stderr=output
        )
        try:
            yield process, start
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def printed(took: Took) -> Table:
    """Medians beside the goals."""
    table = Table("what", "seconds", "goal", "processor s", "goal", title="medians", title_justify="left")
    for name, values in took.items():
        seconds, used = (statistics.median(column) for column in zip(*values, strict=True))
        goals = (str(goal.get(name, "")) for goal in (GOALS, CPU_GOALS))
        table.add_row(name, f"{seconds:.1f}", next(goals), f"{used:.1f}", next(goals))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=1, metavar="K", help="times; the table has medians")
    parser.add_argument("--only", action="append", choices=PARTS, help="calls and platform need what pipeline makes")
    parser.add_argument("--at", default="HEAD", metavar="REVISION", help="of this checkout")
    options = parser.parse_args()
    if subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{options.at}^{{commit}}"],
                      stdout=subprocess.DEVNULL).returncode:  # fmt: skip
        parser.error(f"--at: no revision '{options.at}' here")
    whole = "pipeline" in (options.only or PARTS)
    if not whole and not (ROOT / "data" / "release").is_dir():
        print("skipped: no data/release; `make run` makes it")
        return
    work: dict[str, Callable[[Checkout, Took], None]] = dict(zip(PARTS, (pipeline, calls, platform), strict=True))
    took: Took = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        checkout = Checkout(Path(name), options.at)
        if not whole:
            for made in ("raw", "release"):
                shutil.copytree(ROOT / "data" / made, checkout.path / "data" / made)
        for _ in range(options.repeat):
            for part in options.only or PARTS:
                work[part](checkout, took)
                Console(width=80).print(printed(took))


if __name__ == "__main__":
    main()
