"""The `mfcp` command. Sub-commands import what they need when they run, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.calibrating import add_parser as add_calibrate
from mfcp.capturing import add_parser as add_capture
from mfcp.deciding import add_parser as add_match
from mfcp.errors import DataError, InfeasibleError, SettingsError, guarded
from mfcp.paper.command import add_parser as add_paper
from mfcp.platform.command import add_parser as add_platform
from mfcp.platform.serving import add_parser as add_serve
from mfcp.profiling.command import add_parser as add_profile

if TYPE_CHECKING:
    from mfcp.matching.problem import MatchingProblem, Solution

# Static: --help imports none of them.
ENGINES = ("admm", "auto", "dual", "enumerate", "exact", "greedy", "milp", "pop", "search")


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, and exit: 0 on success, 2 on bad usage or input, 1 on an internal failure."""
    options = _parser().parse_args(arguments)
    sys.exit(guarded(lambda: options.run(options)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mfcp", description="Predict and match deep-learning tasks to third-party clusters."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    bench = commands.add_parser("benchmark", help="compare methods on a folder of logs, in memory, without DVC")
    bench.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder in the log schema")
    bench.add_argument("--out", type=Path, required=True, metavar="DIR", help="gets metrics.json, rounds.parquet, PNGs")
    bench.add_argument("--settings", type=_positive, metavar="K", help="settings of clusters drawn with seed 0")
    bench.add_argument("--clusters", type=_positive, metavar="M", help="clusters of a setting")
    bench.add_argument("--tasks", type=_positive, metavar="N", help="tasks of a round")
    bench.add_argument("--seeds", type=_positive, metavar="S", help="number of seeds")
    bench.add_argument("--methods", metavar="a,b,…", help="labels of params.yaml's methods; default all")
    bench.add_argument("--regime", choices=("sequential", "parallel"), help="tasks of a cluster in turn or at once")
    bench.add_argument("--gamma-quantile", type=float, metavar="Q", help="gamma: quantile of reliability (0.5)")
    bench.add_argument("--pools", choices=("balanced", "asis"), help="draw pool sizes that balance the clusters")
    bench.add_argument("--failures", choices=("auto", "observed", "emulated", "off"), help="where reliability is from")
    bench.add_argument("--params", type=Path, metavar="FILE", help="all other settings (default: params.yaml)")
    bench.set_defaults(run=_benchmark)

    _add_solve(commands)
    add_match(commands, ENGINES)
    add_capture(commands)
    add_calibrate(commands)
    add_profile(commands)
    add_paper(commands)
    add_platform(commands)
    add_serve(commands)

    table = commands.add_parser("table", help="print the comparison table of a metrics.json")
    table.add_argument("metrics", type=Path, metavar="FILE")
    table.add_argument("--all", action="store_true", help="every setting, not the pooled table alone")
    table.set_defaults(run=_table)
    return parser


def _add_solve(commands: Any) -> None:
    solve = commands.add_parser(
        "solve",
        help="match given times and reliabilities",
        description="Match N tasks to M clusters. A FILE is .npy or CSV without header: a matrix or a line of numbers.",
    )
    solve.add_argument("--times", type=Path, required=True, metavar="FILE", help="M × N seconds")
    solve.add_argument("--reliability", type=Path, required=True, metavar="FILE", help="M × N probabilities of success")
    solve.add_argument("--gamma", type=float, required=True, metavar="G", help="least mean reliability of the N tasks")
    solve.add_argument("--engine", choices=ENGINES, default="auto", help="default: auto, by size")
    solve.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="seconds (60)")
    solve.add_argument("--allowed", type=Path, metavar="FILE", help="M × N, 0 where a task may not run, else 1")
    solve.add_argument("--backlog", type=Path, metavar="FILE", help="M seconds until each cluster is free")
    solve.add_argument("--deadline", type=Path, metavar="FILE", help="N seconds by which a task is done, inf for none")
    solve.add_argument("--max-tasks", metavar="K", help="tasks of a cluster at most: a number, or a FILE of M")
    solve.add_argument(
        "--capacity",
        action="append",
        default=[],
        metavar="NAME=USE:LIMIT",
        help="a resource: what each task uses (FILE, N or M × N) and what each cluster has (FILE of M, or a number)",
    )
    solve.add_argument("--zeta", type=Path, metavar="FILE", help="N + 1 or M × (N + 1): factor of n tasks side by side")
    solve.add_argument("--cost", type=Path, metavar="FILE", help="M × N money")
    solve.add_argument(
        "--weights", metavar="a=1,…", help="objective: makespan, total_time, cost; 0 if left out (makespan=1)"
    )
    solve.add_argument(
        "--scheduler", metavar="URL", help="of a Dask cluster that computes prices (tcp://HOST:8786); engine dual"
    )
    solve.add_argument("--out", type=Path, metavar="FILE", help="JSON file (default: JSON on standard output)")
    solve.set_defaults(run=_solve)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text}")
    return value


def _benchmark(options: argparse.Namespace) -> None:
    from mfcp.data.sources.folder import Folder
    from mfcp.data.validation import validate
    from mfcp.evaluation.benchmark import benchmark
    from mfcp.evaluation.report import write_outcome
    from mfcp.evaluation.table import show
    from mfcp.files import output_folder
    from mfcp.progress import progress

    plan, max_bad_share = _plan(options)
    folder = output_folder(options.out)
    with progress(f"read and validate {options.data}"):
        validated = validate(Folder(path=str(options.data)).read(plan.seed), max_bad_share=max_bad_share)
    outcome = benchmark(validated.tables, plan)
    write_outcome(outcome, folder)
    show(outcome.summary, everything=True)
    if outcome.pool.emulated:
        print(f"emulated, not measured: {', '.join(outcome.pool.emulated)}")


def _plan(options: argparse.Namespace) -> tuple[Any, float]:
    """Sections of params.yaml with the command's options over them."""
    from mfcp.evaluation.benchmark import Plan
    from mfcp.settings import Settings

    settings = Settings.load(options.params or default_params())
    over: dict[str, dict[str, Any]] = {
        "featurize": {"settings": options.settings, "clusters": options.clusters},
        "matching": {"tasks": options.tasks, "regime": options.regime, "gamma_quantile": options.gamma_quantile},
        "pool": {"pools": options.pools, "failures": options.failures},
    }
    if options.seeds:
        over["featurize"]["seeds"] = list(range(options.seeds))
    content = dict(settings.content)
    for section, values in over.items():
        given = {key: value for key, value in values.items() if value is not None}
        content[section] = {**(content.get(section) or {}), **given}
    settings = Settings(content, settings.where)
    methods = settings.methods
    if options.methods:
        wanted = [label.strip() for label in options.methods.split(",")]
        unknown = [label for label in wanted if label not in methods]
        if unknown:
            raise SettingsError(f"--methods: unknown '{unknown[0]}'; known: {', '.join(methods)}")
        methods = {label: methods[label] for label in wanted}
    sections = {
        name: settings.section(name) for name in ("pool", "featurize", "matching", "pretrain", "finetune", "evaluate")
    }
    return Plan(**sections, methods=methods), settings.section("validate").max_bad_share


def default_params() -> Path:
    """params.yaml of the working folder, else of the checkout that mfcp runs from."""
    import mfcp

    for path in (Path("params.yaml"), Path(mfcp.__file__).resolve().parents[2] / "params.yaml"):
        if path.is_file():
            return path
    raise SettingsError("no params.yaml here; run in the repository root or pass --params FILE")


def _solve(options: argparse.Namespace) -> None:
    from mfcp.files import output_folder, write_json
    from mfcp.matching.infeasible import explain_infeasible
    from mfcp.matching.planning import require_feasible, solve
    from mfcp.matrices import read_problem

    if not options.time_limit > 0:
        raise SettingsError(f"--time-limit: expected seconds above 0, got {options.time_limit}")
    engine: str | Mapping[str, str] = options.engine
    if options.scheduler:
        if engine not in ("auto", "dual"):
            raise SettingsError(f"--scheduler: expected engine 'dual', got '{engine}'")
        engine = {"kind": "dual", "scheduler": options.scheduler}
    problem = read_problem(options)
    if options.out:
        output_folder(options.out.parent)
    require_feasible(problem)
    with _only_ours():
        solution = solve(problem, engine, time_limit=options.time_limit)
        if solution.status == "infeasible":
            raise InfeasibleError(explain_infeasible(problem).message)
    if solution.status == "failed":
        raise SettingsError(
            f"engine '{solution.engine}' found no plan in {solution.seconds:.1f} s, nor a proof that there is none; "
            "raise --time-limit or choose another --engine"
        )
    result = _outcome(problem, solution)
    if not options.out:
        print(json.dumps(result))
        return
    write_json(options.out, result)
    bound, gap = (f"{result[key]:.6g}" if result[key] is not None else "none" for key in ("lower_bound", "gap"))
    print(
        f"{options.out}: {result['status']}, objective {result['objective']:.6g} (bound {bound}, gap {gap}), "
        f"makespan {result['makespan']:.6g} s, reliability {result['reliability']:.4f} (gamma {result['gamma']:g}), "
        f"engine {result['engine']}, {result['seconds']:.2f} s"
    )


def _outcome(problem: MatchingProblem, solution: Solution) -> dict[str, Any]:
    """What `mfcp solve` tells of one round; None where there is no bound."""
    from math import isfinite

    from mfcp.matching.problem import busy, reliability

    bound, gap = float(solution.lower_bound), float(solution.gap)
    return {
        "assignment": solution.assignment.tolist(),
        "objective": float(solution.objective),
        "makespan": float(solution.makespan),
        "lower_bound": bound if isfinite(bound) else None,
        "gap": gap if isfinite(gap) else None,
        "reliability": float(reliability(solution.assignment, problem.A)),
        "gamma": float(problem.gamma),
        "busy": busy(solution.assignment, problem.T, problem.zeta).tolist(),
        "status": str(solution.status),
        "engine": solution.engine,
        "seconds": solution.seconds,
    }


@contextmanager
def _only_ours() -> Iterator[None]:
    """Nothing on the process's standard output: HiGHS leaves notes there, where a script expects JSON alone."""
    import ctypes

    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C has buffered goes nowhere, too
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _table(options: argparse.Namespace) -> None:
    from mfcp.evaluation.table import show
    from mfcp.files import read_json

    try:
        show(read_json(options.metrics), everything=options.all)
    except (KeyError, TypeError, AttributeError, StopIteration):
        raise DataError(f"{options.metrics}: not a metrics.json of this project") from None


if __name__ == "__main__":
    main()
