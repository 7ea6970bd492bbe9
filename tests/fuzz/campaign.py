"""Mutated inputs over all borders, in processes with limits on time and memory; prints a table.

    python tests/fuzz/campaign.py --cases 100000
    python tests/fuzz/campaign.py --cases 100000 --json data/reports/fuzz.json

A finding is an exception that is no MfcpError, a case that takes more than 5 s of CPU or 1 GiB, or the end of the
process. Its input is kept under tests/fuzz/found, to be made small and put into tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from mfcp.environment import same_instructions

same_instructions()  # as the commands: kernels compiled for other ones would count as the time of the first request
sys.path.insert(0, str(Path(__file__).parents[1]))
from fuzz.borders import Border, borders  # noqa: E402

from mfcp.errors import MfcpError, guarded  # noqa: E402
from mfcp.files import write_json  # noqa: E402

HERE = Path(__file__).parent
CPU_S, WALL_S, MEMORY, ROOM = 5.0, 60.0, 1 << 30, 6 << 30


@dataclass
class Tally:
    """What became of the cases of a border; `grown` is the most bytes that one took."""

    cases: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    grown: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def main() -> int:
    """Run a campaign; 1 where there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), metavar="W")
    parser.add_argument("--only", metavar="BORDER", help="one border")
    parser.add_argument("--found", type=Path, default=HERE / "found", metavar="DIR", help="gets the inputs of findings")
    parser.add_argument("--json", type=Path, metavar="FILE", help="gets the table, and every finding")
    options = parser.parse_args()
    tallies = campaign(options.cases, options.seed, options.workers, options.only, options.found)
    print(f"{'border':18}{'cases':>8}{'refused':>9}{'ms a case':>11}{'slowest s':>11}{'most MiB':>10}{'findings':>10}")
    for name, own in tallies.items():
        mean = 1e3 * own.seconds / max(own.cases, 1)
        print(
            f"{name:18}{own.cases:8}{own.refused / max(own.cases, 1):9.0%}{mean:11.1f}{own.slowest_s:11.2f}"
            f"{own.grown >> 20:10}{len(own.findings):10}"
        )
    told = summary(tallies)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.json, told)
    findings = told["findings"]
    print(f"{told['cases']} cases, {len(findings)} findings")
    for text in sorted(set(findings))[:40]:
        print(f"  {text}")
    return int(bool(findings))


def summary(tallies: Mapping[str, Tally]) -> dict[str, Any]:
    """Cases, what became of those of each border, and every finding."""
    kinds = {name: asdict(own) | {"findings": len(own.findings)} for name, own in tallies.items()}
    return {
        "cases": sum(own.cases for own in tallies.values()),
        "kinds": kinds,
        "findings": [text for own in tallies.values() for text in own.findings],
    }


def campaign(
    cases: int,
    seed: int = 0,
    workers: int | None = 1,
    only: str | None = None,
    found: Path | None = None,
    known: dict[str, Border] | None = None,
) -> dict[str, Tally]:
    """Border → what became of its share of `cases`; the same seed tries the same inputs.

    Args:
        known: the borders, where they have been made.
    """
    with tempfile.TemporaryDirectory(prefix="mfcp-fuzz-") as scratch:
        known = known or borders(Path(scratch))
        chosen = {name: own for name, own in known.items() if only in (None, name)}
        total = sum(own.share for own in chosen.values())
        work = [
            (name, first, min(250, math.ceil(cases * own.share / total) - first))
            for name, own in chosen.items()
            for first in range(0, math.ceil(cases * own.share / total), 250)
        ]
        tallies = {name: Tally() for name in chosen}
        for part in _done(work, chosen, Path(scratch), seed, workers or 1, found):
            own = tallies[part[0]]
            _add(own, part[1])
        return tallies


def _add(whole: Tally, part: Tally) -> None:
    whole.cases += part.cases
    whole.refused += part.refused
    whole.seconds += part.seconds
    whole.slowest_s, whole.grown = max(whole.slowest_s, part.slowest_s), max(whole.grown, part.grown)
    whole.findings += part.findings


def _done(
    work: list[tuple[str, int, int]],
    known: dict[str, Border],
    scratch: Path,
    seed: int,
    workers: int,
    found: Path | None,
) -> Iterator[tuple[str, Tally]]:
    """Parts of the work, each in a process of its own; one that ends or hangs is a finding."""
    context = multiprocessing.get_context("fork")
    running: list[tuple[Any, Any, str]] = []
    waiting = list(reversed(work))
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                part = waiting.pop()
                mine, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_part, args=(theirs, known[part[0]], part, scratch, seed, found))
                process.start()
                theirs.close()
                running.append((process, mine, part[0]))
            for entry in list(running):
                process, mine, name = entry
                if not mine.poll(0.02):
                    continue
                running.remove(entry)
                try:
                    yield name, mine.recv()
                except EOFError:
                    process.join()
                    yield name, Tally(cases=1, findings=[f"{name}: the process ended with {process.exitcode}"])
                process.join()
    finally:
        for process, _, _ in running:
            process.terminate()
            process.join()


def _part(pipe: Any, border: Border, part: tuple[str, int, int], scratch: Path, seed: int, found: Path | None) -> None:
    name, first, count = part
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is no finding; the campaign ends its processes
    # Beside what the parent has mapped already: CUDA's libraries alone are gigabytes.
    most = psutil.Process().memory_info().vms + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 -- for the life of the process
    warnings.simplefilter("ignore")
    tally = Tally()
    for k in range(first, first + count):
        _try(border, random.Random(f"{seed} {name} {k}"), f"{name} {k}", scratch, tally, found)
    pipe.send(tally)


def _try(border: Border, rng: random.Random, label: str, scratch: Path, tally: Tally, found: Path | None) -> None:
    file, content = border.case(rng)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    (folder / file).write_bytes(content)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    why = ""
    try:
        _limited(border, folder / file)
    except MfcpError:
        tally.refused += 1
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(last) if "mfcp" in frame.filename), last[-1])
        why = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:100]!r}"
    took = time.process_time() - begin
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if not why and took > CPU_S:
        why = f"took {took:.1f} s"
    if not why and grown > MEMORY:
        why = f"took {grown >> 20} MiB"
    tally.cases, tally.seconds = tally.cases + 1, tally.seconds + took
    tally.slowest_s, tally.grown = max(tally.slowest_s, took), max(tally.grown, grown)
    if why:
        tally.findings.append(f"{label.rpartition(' ')[0]}: {why}")
        if found is not None:
            kept = found / label.rpartition(" ")[0].replace(" ", "_")
            kept.mkdir(parents=True, exist_ok=True)
            (kept / f"{hashlib.sha256(content).hexdigest()[:10]}-{file}").write_bytes(content)
    shutil.rmtree(folder, ignore_errors=True)


def _limited(border: Border, path: Path) -> None:
    """The call, ended by the system where it takes a minute: what hangs in compiled code hears no signal of Python."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, WALL_S)
    try:
        border.call(path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    sys.exit(guarded(lambda: sys.exit(main())))
