"""`mfcp paper`: the paper's tables and figures, from logs to page."""

from __future__ import annotations

import argparse
import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.commands.reading import add_option, load_members, read_params, whole_number
from mfcp.errors import DataError, MfcpError, SettingsError

if TYPE_CHECKING:
    from mfcp.paper.study_file import StudyPlan

PLATFORM = "default"  # the data set that params.yaml ingests


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "paper",
        help="the paper's tables and figures, with intervals; goes on after a kill",
        description="Runs the study on the default platform and on further logs. Finished jobs are kept in "
        "OUT/jobs: the same command does only what is missing. Writes OUT/paper.json, tables and figures, and tracks "
        "them in MLflow.",
    )
    parser.add_argument("--out", type=Path, default=Path("data/paper"), metavar="DIR", help="default: data/paper")
    parser.add_argument("--data", action="append", default=[], metavar="NAME=DIR", help="a further log, by its schema")
    parser.add_argument("--study", type=Path, metavar="FILE", help="another study file")
    parser.add_argument("--params", type=Path, metavar="FILE", help="default: params.yaml")
    parser.add_argument("--seeds", type=whole_number(1), metavar="S", help="instead of the study's number of seeds")
    parser.add_argument("--only", metavar="a,b,…", help="experiments; default all")
    parser.add_argument("--settings", metavar="A,B,…", help="settings; default all")
    parser.add_argument("--workers", type=whole_number(1), metavar="K", help="processes (default: one a core)")
    parser.add_argument("--scheduler", metavar="URL", help="of a Dask cluster that does the jobs (tcp://HOST:8786)")
    parser.add_argument("--publish", action="store_true", help="the pages and every number of the tables to docs")
    parser.add_argument("--page", action="store_true", help="only the pages, again, from docs/results/summary.json")
    add_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Do the jobs, gather what they found, write and track it."""
    from mfcp.paper.page import publish, write_pages

    if options.page:
        write_pages(Path("docs"))
        return
    from mfcp.paper import running
    from mfcp.paper.jobs import plan_jobs
    from mfcp.paper.report import write_report
    from mfcp.paper.results import gather
    from mfcp.paper.tracking import track
    from mfcp.progress import progress

    load_members(options)
    plan, out = _plan(options), options.out.resolve()
    workers = options.workers or os.cpu_count() or 1
    experiments = _listed("--only", options.only, tuple(plan.study.experiments))
    every = tuple(dict.fromkeys((*plan.study.tuning, *(s for name in experiments for s in plan.settings_of(name)))))
    settings = _listed("--settings", options.settings, every)
    logs = {PLATFORM: plan.base.content["ingest"]["source"], **_logs(options.data)}
    jobs = plan_jobs(plan, logs, experiments, settings)
    cluster = running.dask_workers(options.scheduler) if options.scheduler else None
    with running.alone(out), cluster or nullcontext(lambda: running.processes(workers)) as open_workers:
        failed = running.run_jobs(jobs, out, open_workers)
        with progress("statistics"):
            results = gather(plan, jobs, out, experiments)
        write_report(results, out)
        track(plan, jobs, results, out)
        if failed:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
            raise MfcpError(f"{len(failed)} of {len(jobs)} jobs failed ({reasons}); run again to repeat only these")
        if options.publish:
            publish(out, Path("docs"))


def _plan(options: argparse.Namespace) -> StudyPlan:
    from mfcp.paper.study_file import DEFAULT, StudyPlan

    changes = {"seeds": options.seeds} if options.seeds else {}
    return StudyPlan.load(options.study or DEFAULT, read_params(options.params or Path("params.yaml")), **changes)


def _listed(option: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    if text is None:
        return known
    wanted = tuple(part.strip() for part in text.split(","))
    for part in wanted:
        if part not in known:
            raise SettingsError(f"{option}: unknown '{part}'; known: {', '.join(known)}")
    return wanted


def _logs(given: list[str]) -> dict[str, dict[str, Any]]:
    logs: dict[str, dict[str, Any]] = {}
    for text in given:
        name, _, folder = text.partition("=")
        if not re.fullmatch(r"[a-z0-9_]+", name) or not folder or name in (PLATFORM, *logs):
            raise SettingsError(f"--data: expected NAME=DIR with a new name of a-z, 0-9 and _, got '{text}'")
        if not Path(folder).is_dir():
            raise DataError(f"--data {name}: {folder}: no such folder")
        logs[name] = {"kind": "folder", "path": str(Path(folder).resolve())}
    return logs
