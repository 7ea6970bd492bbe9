"""Every command that writes, dead at every operation on a file, on a full disk, and beside another one of itself.

    python tests/crashes/campaign.py
    python tests/crashes/campaign.py --json data/reports/faults.json

Four things are tried of every command, before each operation on the files of its folder that finds another state of
them than those before it:

- *killed*: the folder as it is at that moment, copied. Every result in it must be absent, as before or as after, and
  the command run on it must end with the bytes of an undisturbed run and leave nothing else.
- *no space*: from that moment on nothing can be made or written. The command must say so in one line, and run again
  end with the same bytes. Once, the whole folder is *read-only*.
- *beside another*: at that moment the same command runs from beginning to end in the same folder. Both must end well,
  or one of them say why not, and the results be those of one.
- *clock*: at half of the operations the time jumps a day ahead, or back.

No result may be written under its own name, since then a kill within the writing would leave half of it.
"""

from __future__ import annotations

import argparse
import errno
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from crashes.operations import FREES, Watched
from crashes.scenarios import ALL, SCENARIOS, Scenario, inside
from crashes.states import contents, copied, hidden, key, results

from mfcp.errors import guarded
from mfcp.files import write_json
from mfcp.threads import cores, process_pool

PATIENCE_S = 60
JUMPS_DAYS = (-1, 1)  # of the clock
HEAVY = (
    "great_expectations", "matplotlib.pyplot", "mfcp.matching", "mfcp.release.fitting", "mlflow", "pandas",
    "pyarrow.parquet", "scipy.stats", "sklearn.ensemble", "torch", "torch_geometric",
)  # fmt: skip


@dataclass
class Tally:
    """What became of one command."""

    operations: int = 0
    states: int = 0
    full: int = 0
    beside: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class End:
    """How a process ended."""

    status: int
    told: str


def main() -> int:
    """Run a campaign; 1 where there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="COMMAND", action="append", choices=sorted(ALL))
    parser.add_argument("--json", type=Path, metavar="FILE", help="gets the table, and every finding")
    options = parser.parse_args()
    print(
        f"{'command':22}{'operations':>11}{'killed':>8}{'no space':>10}{'beside':>8}{'s':>7}{'findings':>10}",
        flush=True,
    )
    findings, tried = list[str](), dict[str, Tally]()
    names = options.only or list(SCENARIOS)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = "1"  # of the processes that try a command: a forked one has no thread to wait for
    for name, own in _tried(names):
        counts = f"{own.operations:11}{own.states:8}{own.full:10}{own.beside:8}{own.seconds:7.0f}"
        print(f"{name:22}{counts}{len(own.findings):10}", flush=True)
        findings += [f"{name}: {text}" for text in own.findings]
        tried[name] = own
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.json, summary(tried))
    print(f"{len(findings)} findings")
    for text in findings[:60]:
        print(f"  {text}")
    return int(bool(findings))


def summary(tried: Mapping[str, Tally]) -> dict[str, Any]:
    """Cases in all and by kind of fault, what became of each command, and every finding."""
    kinds = {
        "killed": sum(own.states for own in tried.values()),
        "no space": sum(own.full for own in tried.values()),
        "beside another": sum(own.beside for own in tried.values()),
        "read-only": len(tried),
        "clock": len(JUMPS_DAYS) * len(tried),
    }
    commands = {name: asdict(own) | {"findings": len(own.findings)} for name, own in tried.items()}
    findings = [f"{name}: {text}" for name, own in tried.items() for text in own.findings]
    return {"cases": sum(kinds.values()), "kinds": kinds, "commands": commands, "findings": findings}


def _tried(names: Sequence[str]) -> Iterator[tuple[str, Tally]]:
    """Commands and what became of them, in processes that end at once where this one is interrupted."""
    with tempfile.TemporaryDirectory(prefix="mfcp-crashes-", ignore_cleanup_errors=True) as scratch:
        pool = process_pool(min(len(names), cores()), HEAVY)
        try:
            yield from zip(names, pool.map(campaign, names, repeat(scratch)), strict=True)
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def campaign(name: str, place: str) -> Tally:
    """Try one command, in a process that has threads of no library: they do not live on in a forked one.

    Args:
        name: of the command's scenario.
        place: a folder to try it in.
    """
    for module in HEAVY:  # there already; where one could not be preloaded, nobody has said so yet
        __import__(module)
    scenario, tally, begin = ALL[name], Tally(), time.perf_counter()
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        one = _Trial(scenario, Path(scratch), tally)
        one.killed()
        one.without_space()
        one.read_only()
        one.beside_another()
        one.clock()
    tally.seconds = time.perf_counter() - begin
    return tally


class _Trial:
    def __init__(self, scenario: Scenario, scratch: Path, tally: Tally) -> None:
        self.scenario, self.scratch, self.tally = scenario, scratch, tally
        self.start, self.number = scratch / "start", 0
        self.start.mkdir()
        end = self._run(self.start, prepare=True)
        if end.status:
            raise RuntimeError(f"the scenario cannot be prepared: {end.told}")
        self.before = self._results(contents(self.start))

    def killed(self) -> None:
        """The undisturbed run, its states, and what the command makes of each."""
        work, kept = self._fresh(), self.scratch / "states"
        kept.mkdir()
        known: dict[str, int] = {}
        last: dict[str, Any] = {"files": contents(work), "made": ""}
        notes = self.scratch / "in-place"

        def seen(number: int, event: str, path: str) -> None:
            found = contents(work)
            for text in self._in_place(last["files"], found, last["made"]):
                with notes.open("a") as file:
                    file.write(f"{text}\n")
            last.update(files=found, made=path if event in ("os.rename", "os.link", "open") else last["made"])
            if (
                event == "open"
                and not hidden(path)
                and path in self._results({path: "x"})
                and not path.endswith(".lock")
            ):
                with notes.open("a") as file:
                    file.write(f"{path} is opened for writing under its own name\n")
            if (own := key(found)) not in known:
                known[own] = number
                copied(work, kept / f"{number:05d}")
                with (self.scratch / "points").open("a") as file:
                    file.write(f"{number}\n")
            (self.scratch / "operations").write_text(str(number + 1))

        end = self._run(work, seen)
        if not (self.scratch / "operations").exists():
            raise RuntimeError(f"the command writes nothing: exit {end.status}: {end.told}")
        self.tally.operations = int((self.scratch / "operations").read_text())
        self.points = [int(line) for line in (self.scratch / "points").read_text().split()]
        whole = contents(work)
        self.after, self.names = self._results(whole), {path for path in whole if hidden(path)}
        if end.status:
            self._find(f"undisturbed: exit {end.status}: {end.told}")
        if notes.exists():
            for text in sorted(set(notes.read_text().splitlines())):
                self._find(text)
        for state in [*sorted(kept.iterdir()), work]:
            self._recovers(state, f"killed at {state.name}")
            self.tally.states += 1

    def _in_place(self, old: dict[str, str], new: dict[str, str], made: str) -> list[str]:
        """Results that came or changed between two operations by another way than a rename."""
        before, after = self._results(old), self._results(new)
        return [
            f"{path} is written under its own name"
            for path, own in after.items()
            if before.get(path) != own and not (path == made or path.startswith(f"{made}{os.sep}") or not made)
            and not os.path.dirname(made).startswith(".")
        ]  # fmt: skip

    def _recovers(self, state: Path, when: str) -> None:
        now = self._results(contents(state))
        for path, own in now.items():
            if own not in (self.before.get(path), self.after.get(path)):
                self._find(f"{when}: {path} is neither as before nor as after")
        for path in self.before.keys() & self.after.keys() - now.keys():
            self._find(f"{when}: {path} is gone")
        self._ends_the_same(copied(state, self._name()), when)

    def _ends_the_same(self, work: Path, when: str) -> None:
        end = self._run(work)
        found = contents(work)
        if end.status and not (self.scenario.done in end.told and self._results(found) == self.after):
            self._find(f"{when}, again: exit {end.status}: {end.told}")
        elif self._results(found) != self.after:
            different = {path for path, _ in self._results(found).items() ^ self.after.items()}
            self._find(f"{when}, again: {', '.join(sorted(different)[:3])} differ")
        elif left := {path for path in found if hidden(path)} - self.names:
            self._find(f"{when}, again: {', '.join(sorted(left)[:3])} is left")
        shutil.rmtree(work)

    def without_space(self) -> None:
        """Nothing can be made from an operation on."""
        for first in self.points:
            work = self._fresh()

            def full(number: int, event: str, path: str, first: int = first) -> None:
                if number >= first and event not in FREES:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

            end = self._run(work, full)
            when = f"no space from {first} on"
            if end.status not in (0, 1, 2) or "Traceback" in end.told:
                self._find(f"{when}: exit {end.status}: {end.told}")
            elif end.status and not end.told.strip():
                self._find(f"{when}: exit {end.status} without a word")
            self._recovers(work, when)
            shutil.rmtree(work)
            self.tally.full += 1

    def read_only(self) -> None:
        """Nothing can be made, written or removed at all."""
        work = self._fresh()

        def refused(number: int, event: str, path: str) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

        end = self._run(work, refused)
        if end.status not in (1, 2) or "Traceback" in end.told or not end.told.strip():
            self._find(f"read-only: exit {end.status}: {end.told}")
        if self._results(contents(work)) != self.before:
            self._find("read-only: the folder has changed")
        shutil.rmtree(work)

    def beside_another(self) -> None:
        """The command within the command."""
        for at in self.points:
            work, other = self._fresh(), self.scratch / "other"

            def whole(number: int, event: str, path: str, at: int = at, work: Path = work, other: Path = other) -> None:
                if number == at:
                    # The first one stands still meanwhile: who waits for it is to give up soon.
                    real = time.monotonic
                    time.monotonic = lambda: 1000 * real()
                    second = self._run(work, patience_s=2 if self.scenario.waits else PATIENCE_S)
                    time.monotonic = real
                    other.write_text(f"{second.status} {second.told}")

            end, when = self._run(work, whole), f"another one at {at}"
            status, _, told = other.read_text().partition(" ")
            second = End(int(status), told)
            for one, name in ((end, "first"), (second, "second")):
                if self.scenario.waits and name == "second" and one.status == -9:
                    continue
                if one.status not in (0, 1, 2) or "Traceback" in one.told:
                    self._find(f"{when}: the {name} ends with {one.status}: {one.told}")
            if end.status and second.status:
                self._find(f"{when}: neither ends well: {end.told}")
            found = contents(work)
            if self._results(found) != self.after:
                different = {path for path, _ in self._results(found).items() ^ self.after.items()}
                self._find(f"{when}: {', '.join(sorted(different)[:3])} differ")
            shutil.rmtree(work)
            self.tally.beside += 1

    def clock(self) -> None:
        """The time jumps."""
        real = time.time
        for days in JUMPS_DAYS:
            work = self._fresh()

            def jump(number: int, event: str, path: str, days: int = days) -> None:
                if number == self.tally.operations // 2:
                    time.time = lambda: real() + days * 86400

            end = self._run(work, jump)
            if end.status or self._results(contents(work)) != self.after:
                self._find(f"clock {days:+d} day: exit {end.status}, or other results: {end.told}")
            shutil.rmtree(work)

    def _run(
        self,
        work: Path,
        seen: Callable[[int, str, str], None] | None = None,
        *,
        prepare: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> End:
        """The command in a process of its own, which has everything imported."""
        told = self.scratch / f"told-{os.getpid()}"
        child = os.fork()
        if not child:
            self._child(work, told, seen, prepare)
        until, done = time.time() + patience_s, 0
        try:
            while time.time() < until:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    return End(os.waitstatus_to_exitcode(status), told.read_text(errors="replace")[-400:])
                time.sleep(0.005)
        finally:
            if not done:
                os.kill(child, 9)
                os.waitpid(child, 0)
        return End(-9, f"not done after {patience_s} s")

    def _child(self, work: Path, told: Path, seen: Callable[[int, str, str], None] | None, prepare: bool) -> None:
        status = 70
        try:
            output = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(output, 2)
            with inside(work):
                if seen is not None:
                    Watched(work, self.scenario.volatile, seen)
                if prepare:
                    self.scenario.prepare()
                    status = 0
                else:
                    status = self.scenario.run()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _results(self, found: dict[str, str]) -> dict[str, str]:
        return results(found, self.scenario.volatile)

    def _fresh(self) -> Path:
        return copied(self.start, self._name())

    def _name(self) -> Path:
        self.number += 1
        return self.scratch / f"work-{os.getpid()}-{self.number}"

    def _find(self, text: str) -> None:
        self.tally.findings.append(" ".join(text.split())[-300:])


if __name__ == "__main__":
    sys.exit(guarded(lambda: sys.exit(main())))
