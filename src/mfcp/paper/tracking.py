"""The study's results in MLflow: a parent per setting and method, for the comparison with a child per seed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mfcp.border.json_text import read_json
from mfcp.errors import MfcpError
from mfcp.evaluation.metric_table import METRICS
from mfcp.files import write_json
from mfcp.paper.jobs import Job, digest, job_name
from mfcp.paper.study_file import StudyPlan
from mfcp.tracking import MethodResult, SeedResult, git_tags, log_results


def track(plan: StudyPlan, jobs: Sequence[Job], results: dict[str, Any], out: Path) -> None:
    """Log every experiment once: one whose tables have not changed since is left alone.

    A store that is down costs only the tracking.
    """
    log = out / "tracked.json"
    tracked: dict[str, str] = read_json(log) if log.is_file() else {}
    tags = git_tags(Path.cwd())
    for name, experiment in results["experiments"].items():
        for data in results["data"]:
            entries = [entry for entry in experiment["entries"] if entry["data"] == data]
            mark = digest(json.dumps([entry["tables"] for entry in entries]).encode())
            if not entries or tracked.get(f"{data}/{name}") == mark:
                continue
            runs = [run for entry in entries for run in _runs(plan, jobs, out, name, entry)]
            try:
                log_results(f"paper/{data}", runs, tags={**tags, "experiment": name}, progress=True)
            except MfcpError as error:
                print(f"warning: results are in {out}, but not in MLflow: {error}", file=sys.stderr)
                return
            tracked[f"{data}/{name}"] = mark
            write_json(log, tracked)


def _runs(
    plan: StudyPlan, jobs: Sequence[Job], out: Path, experiment: str, entry: dict[str, Any]
) -> Iterator[MethodResult]:
    methods = plan.settings(experiment, entry["value"]).methods
    swept = plan.study.experiments[experiment].swept
    folders = {job.name: job.folder(out) for job in jobs if job.done(out)}
    for table, rows in entry["tables"].items():
        job = job_name(entry["data"], experiment, table, entry["value"])
        seeds = (
            pd.read_parquet(folders[job] / "seeds.parquet") if experiment == "comparison" and job in folders else None
        )
        for label, metrics in rows.items():
            flat = {
                f"{k}.{stat}": x for k, value in metrics.items() for stat, x in value.items() if isinstance(x, float)
            }
            params = {"experiment": experiment, **methods[label].spec()} | ({swept: entry["value"]} if swept else {})
            where = f"{experiment} {table}" + (f" {swept}={entry['value']:g}" if swept else "")
            yield MethodResult(where, label, params, flat, [] if seeds is None else _children(seeds, label))


def _children(seeds: pd.DataFrame, label: str) -> list[SeedResult]:
    own = seeds[seeds["method"] == label]
    return [
        SeedResult(int(row["seed"]), {name: float(row[name]) for name in METRICS if name in row})
        for _, row in own.iterrows()
    ]
