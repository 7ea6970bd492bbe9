"""Sweeps of `mfcp simulate`: policies × loads × seeds, over processes or a Dask cluster; what is done is kept."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from contextlib import closing, nullcontext
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.commands.simulating.case import Case, spec_of
from mfcp.commands.simulating.tables import print_table
from mfcp.errors import MfcpError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from concurrent.futures import Executor

    import pandas as pd

Run = tuple[str, float | None, int]  # policy, load, seed
FILES = ("speeds", "configurations", "batches", "pairs", "losses")
IMPORTS = (__name__, "mfcp.simulator.jobs", "mfcp.simulator.simulation", "pandas")  # of a process that does runs
OPTIONS = ("cluster", "columns", "sizes", "belief", "semantics", "placement", "leave_out")


def sweep(options: argparse.Namespace, case: Case, policies: dict[str, Any]) -> None:
    """Do what is missing, and tell what all of it found.

    Every run is a file in OUT/runs, named by a digest of what it depends on. The table of all is OUT/sweep.csv.
    """
    from mfcp.border.json_text import read_json
    from mfcp.files import write_json
    from mfcp.paper import running
    from mfcp.progress import progress

    if options.out is None:
        raise SettingsError("--loads, --seeds: a sweep keeps its runs in a folder; name one with --out")
    if options.compare or options.explain is not None:
        raise SettingsError("--compare, --explain: of single runs, not of a sweep")
    loads, seeds = _loads(options.loads), range(options.seed, options.seed + (options.seeds or 1))
    base, runs = _digest(options, case), dict[Path, Run]()
    for run in product(policies, loads, seeds):
        own = hashlib.sha256(json.dumps([base, *run]).encode()).hexdigest()[:16]
        runs[Path(options.out) / "runs" / f"{own}.json"] = run
    missing = {path: run for path, run in runs.items() if not path.exists()}
    print(f"{len(runs)} runs, {len(runs) - len(missing)} done before", flush=True)
    cluster = running.dask_workers(options.scheduler) if options.scheduler else None
    width = min(options.workers or os.cpu_count() or 1, max(len(missing), 1))
    with running.alone(options.out), cluster or nullcontext(lambda: running.processes(width, IMPORTS)) as open_workers:
        if missing:
            here = width == 1 and not options.scheduler  # a process of its own takes longer to start than most runs
            done = _run_here(case, missing) if here else _run_over(open_workers()[0], _plain(options), missing)
            with closing(done), progress("sweep", len(missing)) as advance:
                for path, record in done:
                    write_json(path, record)
                    advance()
        _tell([read_json(path) for path in runs], options.out)


def _run_here(case: Case, runs: Mapping[Path, Run]) -> Generator[tuple[Path, dict[str, Any]], None, None]:
    for path, run in runs.items():
        yield path, _record(case, *run)


def _run_over(
    executor: Executor, options: dict[str, Any], runs: Mapping[Path, Run]
) -> Generator[tuple[Path, dict[str, Any]], None, None]:
    """Runs as they end, in whatever order; once it is closed, those that have not begun are not done."""
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    with executor:
        futures = {executor.submit(run_cell, options, *run): path for path, run in runs.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise MfcpError("a process died (out of memory?); run again: finished runs are kept") from None
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def run_cell(options: dict[str, Any], name: str, load: float | None, seed: int) -> dict[str, Any]:
    """One run, in a worker; a process reads the trace once."""
    from mfcp.simulator.simulation import import_policies

    import_policies()
    return _record(_case(json.dumps(options)), name, load, seed)


def _record(case: Case, name: str, load: float | None, seed: int) -> dict[str, Any]:
    from mfcp.simulator.policies.base import Policy

    outcome = (case if load is None else case.at_load(load)).run(Policy.parse(spec_of(name)), seed)
    metrics = {key: value if value == value else None for key, value in outcome.metrics().items()}
    return {"policy": name, "load": load, "seed": seed, **metrics}


@cache
def _case(options: str) -> Case:
    given = json.loads(options)
    paths = {name: None if given[name] is None else Path(given[name]) for name in ("trace", *FILES)}
    return Case.of(argparse.Namespace(**given | paths))


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    """What a case is read from, as JSON values; workers elsewhere see the same files."""
    files = {
        name: None if (path := getattr(options, name)) is None else str(path.resolve()) for name in ("trace", *FILES)
    }
    whole = files | {name: getattr(options, name) for name in OPTIONS}
    return whole | ({"cluster": str(Path(options.cluster).resolve())} if Path(options.cluster).is_file() else {})


def _loads(text: str | None) -> list[float | None]:
    if not text:
        return [None]
    try:
        loads = [float(part) for part in text.split(",")]
    except ValueError:
        loads = [0.0]
    if not all(0 < load < 100 for load in loads):
        raise SettingsError(f"--loads {text}: expected numbers above 0 and below 100, as 0.7,0.9,1.1")
    return list(loads)


def _digest(options: argparse.Namespace, case: Case) -> str:
    """Of all that the runs of a case depend on: jobs, cluster, beliefs, speeds, own policies' files, and versions."""
    import numpy as np

    from mfcp.registry import FILES as EXTENSIONS

    whole = hashlib.sha256(f"{version('mfcp')} {np.__version__} {options.semantics} {case.placement}".encode())
    for part in (case.trace.jobs, case.cluster, case.configurations, case.batches, case.pairs):
        for values in vars(part).values() if part is not None else ():
            whole.update(np.asarray(values).tobytes() if isinstance(values, np.ndarray) else str(values).encode())
    whole.update(case.belief.model_dump_json().encode() + case.belief.name.encode())
    whole.update(b"" if case.speed is None else case.speed.tobytes())
    if case.losses is not None:
        for values in (*case.losses.curves, case.losses.threshold, case.losses.of):
            whole.update(f"{len(values)} ".encode() + values.tobytes())
    for name in filter(None, os.environ.get(EXTENSIONS, "").split(os.pathsep)):
        whole.update(Path(name).read_bytes())
    return whole.hexdigest()


def _tell(rows: list[dict[str, Any]], out: Path) -> None:
    """The table of all runs to a file, and mean completion times to the screen."""
    import pandas as pd

    from mfcp.files import replacing

    frame = pd.DataFrame(rows)
    with replacing(out / "sweep.csv") as path:
        frame.to_csv(path, index=False)
    several = frame["seed"].nunique() > 1
    loads = list(dict.fromkeys(frame["load"].fillna("as it is")))
    cells = [[str(name), *(_mean(own[own["load"].fillna("as it is") == load]["mean_jct_s"], several) for load in loads)]
             for name, own in frame.groupby("policy", sort=False)]  # fmt: skip
    spread = ", mean ± standard deviation over seeds" if several else ""
    print_table([f"mean JCT [s]{spread}", *(f"load {load}" for load in loads)], cells)
    left = int(frame[["declined", "given_up", "never_ends"]].sum().sum())
    if left:
        print(f"{left:,} jobs of all runs do not end and are in no mean; sweep.csv counts them by why")
    print(f"wrote {out / 'sweep.csv'}")


def _mean(values: pd.Series[Any], several: bool) -> str:
    return f"{values.mean():,.0f} ± {values.std():,.0f}" if several else f"{values.mean():,.0f}"
