"""`mfcp benchmark`: all methods on a folder of logs, in memory, without DVC."""

from __future__ import annotations

import argparse
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from mfcp.commands.reading import add_option, read_params, settings_with, whole_number
from mfcp.errors import SettingsError

if TYPE_CHECKING:
    from mfcp.evaluation.benchmark import BenchmarkSettings


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    bench = commands.add_parser("benchmark", help="compare methods on a folder of logs, in memory, without DVC")
    bench.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder in the log schema")
    bench.add_argument("--out", type=Path, required=True, metavar="DIR", help="gets metrics.json, rounds.parquet, PNGs")
    bench.add_argument("--settings", type=whole_number(1), metavar="K", help="settings of clusters drawn with seed 0")
    bench.add_argument("--clusters", type=whole_number(1), metavar="M", help="clusters of a setting")
    bench.add_argument("--tasks", type=whole_number(1), metavar="N", help="tasks of a round")
    bench.add_argument("--seeds", type=whole_number(1), metavar="S", help="number of seeds")
    bench.add_argument("--methods", metavar="a,b,…", help="labels of params.yaml's methods; default all")
    bench.add_argument("--regime", choices=("sequential", "parallel"), help="tasks of a cluster in turn or at once")
    bench.add_argument("--gamma-quantile", type=float, metavar="Q", help="gamma: quantile of reliability (0.5)")
    bench.add_argument(
        "--pools",
        choices=("auto", "balanced", "asis"),
        help="draw pool sizes that balance the clusters (auto: where no run tells a duration)",
    )
    bench.add_argument("--failures", choices=("auto", "observed", "emulated", "off"), help="where reliability is from")
    bench.add_argument("--params", type=Path, metavar="FILE", help="all other settings (default: params.yaml)")
    add_option(bench)
    bench.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Validate the log, run the benchmark, write its files and print its tables."""
    from mfcp.commands.reading import read_log
    from mfcp.evaluation.benchmark import benchmark
    from mfcp.evaluation.report import write_outcome
    from mfcp.evaluation.table import show
    from mfcp.files import output_folder, replacing_files

    settings, max_bad_share = _settings(options)
    folder = output_folder(options.out)
    with read_log(options.data, max_bad_share=max_bad_share) as log:
        tables = log.tables
    outcome = benchmark(tables, settings)
    with replacing_files(folder, "ratios.png") as new:  # which needs the method tsm
        write_outcome(outcome, new)
    show(outcome.summary, everything=True)
    for note in outcome.pool.notes:
        print(fill(f"note: {note}", 80))
    if outcome.pool.emulated:
        print(f"emulated, not measured: {', '.join(outcome.pool.emulated)}")
    print(f"The whole comparison, for a browser: {options.out / 'report.html'}")


def _settings(options: argparse.Namespace) -> tuple[BenchmarkSettings, float]:
    """Sections of params.yaml with the command's options over them."""
    from mfcp.evaluation.benchmark import BenchmarkSettings
    from mfcp.settings import Settings

    settings = settings_with(options, read_params(options.params))
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
    asked = frozenset(name for name in ("settings", "clusters", "tasks") if getattr(options, name) is not None)
    plan = BenchmarkSettings(**sections, methods=methods, where=str(options.data), asked=asked)
    return plan, settings.section("validate").max_bad_share
