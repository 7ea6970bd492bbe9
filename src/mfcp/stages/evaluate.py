"""Stage evaluate: data/models → the numbers of data/reports (metrics, headline, details, rounds), and all in MLflow."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from mfcp.errors import MfcpError
from mfcp.evaluation.compare import Summary, headline, leading, summarise
from mfcp.evaluation.details import details
from mfcp.evaluation.metric_table import METRICS
from mfcp.evaluation.metrics import EvaluateSettings, evaluate
from mfcp.files import replacing, write_json
from mfcp.methods.base import Trained
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import FEATURES, MODELS, REPORTS, VALID, main
from mfcp.study.reference import solved_setting
from mfcp.study.study_data import Study
from mfcp.tracking import (
    PIPELINE,
    MethodResult,
    SeedResult,
    dvc_hashes,
    git_tags,
    log_results,
    methods_address,
    origin_tags,
)


def run(settings: Settings) -> None:
    """Judge every method of params.yaml on the test rounds of every setting."""
    section: EvaluateSettings = settings.section("evaluate")
    study = Study.load(FEATURES)
    rounds, seeds, found = [], [], {}
    models: dict[str, dict[str, Trained]] = {}
    with progress("evaluate", len(study.settings) + 1) as advance:
        for name in study.settings:
            setting = solved_setting(study, name, settings.section("matching"), price=section.shortfall_price)
            models[name] = {label: Trained.load(MODELS / label, name) for label in settings.methods}
            table, per_seed = evaluate(setting, models[name], section)
            found[name] = details(setting, models[name], table)
            rounds.append(table)
            seeds.append(per_seed)
            advance()
        all_rounds, all_seeds = pd.concat(rounds, ignore_index=True), pd.concat(seeds, ignore_index=True)
        summary = summarise(all_rounds, all_seeds, bootstrap=section.bootstrap)
        advance()
    with replacing(REPORTS / "rounds.parquet") as path:
        all_rounds.to_parquet(path, index=False)
    write_json(REPORTS / "metrics.json", summary)
    write_json(REPORTS / "headline.json", headline(summary))
    write_json(REPORTS / "details.json", found)
    _track(_results(summary, all_seeds, models), summary)


def _results(summary: Summary, seeds: pd.DataFrame, models: dict[str, dict[str, Trained]]) -> list[MethodResult]:
    """The tracking store's view below each method: a run per setting, with a child per seed and its training curves."""
    results = []
    for key, own in seeds.groupby(["setting", "method"], sort=False):
        setting, method = map(str, key)
        trained = models[setting][method]
        values = summary[setting][method]
        aggregated = {f"{k}.{stat}": x for k, v in values.items() for stat, x in v.items() if isinstance(x, float)}
        children = [
            SeedResult(
                seed=int(row["seed"]),
                metrics={name: float(row[name]) for name in METRICS if name in row},
                history={name: curve[k].tolist() for name, curve in trained.history.items()},
            )
            for k, (_, row) in enumerate(own.iterrows())
        ]
        results.append(MethodResult(setting, method, trained.method.spec(), aggregated, children, []))
    return results


def _track(results: list[MethodResult], summary: Summary) -> None:
    """Log to MLflow; a store that is down costs the tracking, not the evaluation."""
    here = Path.cwd()
    outs = [str(VALID), str(FEATURES)]
    try:
        tags = git_tags(here) | dvc_hashes(here, outs) | origin_tags()
        log_results(PIPELINE, results, tags=tags, methods=leading(summary), progress=True)
        print(f"tracked, see `make ui`: {methods_address(PIPELINE)}")  # also in the log of a flow that runs this stage
    except MfcpError as error:
        print(f"warning: results are in {REPORTS}, but not in MLflow: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(run)
