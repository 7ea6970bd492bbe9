"""The `mfcp` command. Sub-commands import what they need when they run, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mfcp.errors import DataError, SettingsError, guarded

ENGINES = ("auto", "exact", "enumerate", "milp")


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

    solve = commands.add_parser("solve", help="match given times and reliabilities")
    solve.add_argument("--times", type=Path, required=True, metavar="FILE", help=".npy or CSV, M rows × N columns, s")
    solve.add_argument("--reliability", type=Path, required=True, metavar="FILE", help="the same shape, in [0, 1]")
    solve.add_argument("--gamma", type=float, required=True, metavar="G", help="least mean reliability")
    solve.add_argument("--engine", choices=ENGINES, default="auto")
    solve.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="seconds (60)")
    solve.add_argument("--out", type=Path, metavar="FILE", help="JSON file (default: standard output)")
    solve.set_defaults(run=_solve)

    table = commands.add_parser("table", help="print the comparison table of a metrics.json")
    table.add_argument("metrics", type=Path, metavar="FILE")
    table.add_argument("--all", action="store_true", help="every setting, not the pooled table alone")
    table.set_defaults(run=_table)
    return parser


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
    from mfcp.files import write_json
    from mfcp.matching.planning import require_feasible, solve
    from mfcp.matching.problem import MatchingProblem, reliability

    problem = MatchingProblem(_matrix(options.times), _matrix(options.reliability), options.gamma)
    if problem.T.ndim != 2:
        raise DataError(f"{options.times}: expected M rows × N columns, got shape {problem.T.shape}")
    require_feasible(problem)
    solution = solve(problem, options.engine, time_limit=options.time_limit)
    result = {
        "assignment": solution.assignment.tolist(),
        "makespan": float(solution.makespan),
        "lower_bound": float(solution.lower_bound),
        "reliability": float(reliability(solution.assignment, problem.A)),
        "gamma": options.gamma,
        "status": str(solution.status),
        "engine": solution.engine,
        "seconds": solution.seconds,
    }
    if options.out:
        write_json(options.out, result)
    else:
        print(json.dumps(result))


def _matrix(path: Path) -> Any:
    import numpy as np

    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path}: not a numeric .npy or CSV matrix ({error})") from None


def _table(options: argparse.Namespace) -> None:
    from mfcp.evaluation.table import show
    from mfcp.files import read_json

    try:
        show(read_json(options.metrics), everything=options.all)
    except (KeyError, TypeError, AttributeError, StopIteration):
        raise DataError(f"{options.metrics}: not a metrics.json of this project") from None


if __name__ == "__main__":
    main()
