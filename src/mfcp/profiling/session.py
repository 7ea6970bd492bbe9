"""What is asked for, checked; the clusters that this machine is; and the runs that are still to do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from mfcp.emulator.hardware import PRECISIONS
from mfcp.errors import SettingsError
from mfcp.profiling.folder import opened
from mfcp.profiling.isolation import Isolation
from mfcp.profiling.machine import cluster
from mfcp.profiling.running import Profiled, RunSettings, Session
from mfcp.profiling.subjects import MOST, ProfilingRun, in_turns, subjects
from mfcp.threads import cores

_MOST_REPEATS = 10_000  # all runs are listed before the first one begins
_MOST_SEED = 2**63 - 1


# Over 60 lines: 41 of them are the arguments and what each is.
def profile(
    models: Sequence[str] = (),
    *,
    out: Path,
    inputs: Sequence[str] = (),
    batches: Sequence[int] = (),
    precisions: Sequence[str] = ("fp32",),
    device: str = "auto",
    threads: Sequence[int] = (),
    memory_limit: int | None = None,
    repeats: int = 1,
    warmup: int = 1,
    steps: int = 5,
    epochs: int | None = None,
    examples: int | None = None,
    budget: float | None = None,
    timeout: float = 600.0,
    seed: int = 0,
) -> Profiled:
    """Train each model for some steps on this machine and add what was measured to a folder in the log schema.

    Runs that the folder has are not repeated, so that the same call goes on after any interruption. A run that fails
    is recorded with its status; it ends nothing else, as each has a process of its own.

    Args:
        models: `zoo:resnet-50@224`, `zoo:resnet` (a family), `FILE.py:NAME`; none: the whole zoo.
        out: folder, made if missing.
        inputs: of every file's module, batch first, such as `8x3x224x224` or `tokens=8x128:int64`.
        batches: batch sizes, each a task of its own; none: 8, or that of the inputs.
        precisions: of fp32, amp_fp16, amp_bf16, each a task of its own.
        device: cpu, cuda (each GPU a cluster), or auto: cuda where there is one and no threads are given.
        threads: numbers of CPU threads, each a cluster of its own; none: all cores.
        memory_limit: bytes that a run may take, another cluster than without limit; none: the device's memory.
        repeats: runs of a task on a cluster.
        warmup: steps of a run whose time does not count.
        steps: of a run that are timed.
        epochs, examples: both or none: train so many epochs over so many examples instead, which fills `duration_s`.
        budget: seconds after which no further run is started, and a run under way is ended and forgotten.
        timeout: seconds until a run is ended, which is recorded.
        seed: of weights and inputs.

    Raises:
        SettingsError: an unknown model or an argument out of range.
        DataError: a file that cannot be executed, or a folder that cannot be used.
    """
    start = time.monotonic()
    end = inf if budget is None else start + budget
    _check(batches, precisions, threads, device, epochs, examples)
    _check_whole(1, MOST, steps=steps, epochs=epochs, examples=examples)
    _check_whole(1, _MOST_REPEATS, repeats=repeats)
    _check_whole(0, MOST, warmup=warmup)
    _check_whole(0, _MOST_SEED, seed=seed)
    _check_positive(timeout=timeout, budget=budget, memory_limit=memory_limit)
    batches, threads = tuple(dict.fromkeys(batches)), tuple(dict.fromkeys(threads))
    precisions = tuple(dict.fromkeys(precisions))
    chosen = subjects(models, inputs)
    wrong = [batch for subject in chosen for batch in batches or (subject.batch,) if examples and examples % batch]
    if wrong:
        raise SettingsError(f"--examples {examples} is no multiple of batch {wrong[0]}; choose one that is")
    settings = RunSettings(warmup, steps, epochs, examples, timeout, memory_limit, seed)
    suffix = f"/e{epochs}x{examples}" if epochs else ""
    with opened(Path(out)) as folder, Isolation() as isolation:
        clusters = _clusters(isolation, "cpu" if threads else device, threads or (cores(),), memory_limit)
        turns = [
            [
                ProfilingRun(subject, batch, precision, place, count, str(row["cluster_id"]), attempt, suffix)
                for subject in turn
                for batch in batches or (subject.batch,)
                for precision in precisions
                for place, count, row in clusters
            ]
            for attempt in range(1, repeats + 1)  # all once before any comes again: repeats are apart in time
            for turn in in_turns(chosen)
        ]
        done = folder.names("runs")
        waiting = [[run for run in turn if run.run_id not in done] for turn in turns]
        session = Session(folder, isolation, settings, {str(row["cluster_id"]): row for *_, row in clusters}, end)
        return session.go(waiting)


def _clusters(
    isolation: Isolation, device: str, threads: Sequence[int], memory: int | None
) -> list[tuple[dict[str, Any], int | None, dict[str, Any]]]:
    """Place, CPU threads and row of each cluster that this machine is."""
    outcome = isolation.run("places", {"device": device}, timeout=120)
    if not outcome.result:
        reason = f" ({outcome.error})" if outcome.error else ""
        raise SettingsError(f"--device {device}: this machine's PyTorch finds no such device{reason}")
    found = []
    for place in outcome.result:
        if memory is not None and memory > place["memory_bytes"]:
            raise SettingsError(f"--memory-limit {memory}: {place['accelerator']} has {place['memory_bytes']} bytes")
        for count in threads if place["device"] == "cpu" else (None,):
            found.append((place, count, cluster(place, count, memory)))
    return found


def _check_positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not value > 0:
            raise SettingsError(f"--{name.replace('_', '-')}: expected a positive number, got {value}")


def _check_whole(least: int, most: int, **values: int | None) -> None:
    for name, value in values.items():
        if value is not None and not least <= value <= most:
            raise SettingsError(f"--{name}: expected a whole number from {least} to {most}, got {value}")


def _check(
    batches: Sequence[int],
    precisions: Sequence[str],
    threads: Sequence[int],
    device: str,
    epochs: int | None,
    examples: int | None,
) -> None:
    for name, values in (("batch", batches), ("threads", threads)):
        for value in values:
            _check_whole(1, MOST, **{name: value})
    if any(value > cores() for value in threads):
        raise SettingsError(f"--threads: expected at most this machine's {cores()} cores, got {max(threads)}")
    if threads and device == "cuda":
        raise SettingsError("--threads are those of a CPU; leave them out, or pass --device cpu")
    for precision in precisions:
        if precision not in PRECISIONS:
            raise SettingsError(f"--precision: expected {', '.join(PRECISIONS)}, got '{precision}'")
    if (epochs is None) != (examples is None):
        raise SettingsError("--epochs and --examples go together: a task is so many epochs over so many examples")
