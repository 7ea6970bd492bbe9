"""Stage evaluate: data/models → metrics.json and rounds.parquet in data/reports, and everything in MLflow."""

from __future__ import annotations

import pandas as pd

from mfcp.data.study import Study
from mfcp.evaluation.compare import summarise
from mfcp.evaluation.metrics import EvaluateRules, evaluate
from mfcp.evaluation.results import method_results
from mfcp.files import replacing, write_json
from mfcp.methods.base import Trained
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import FEATURES, MODELS, REPORTS, main


def run(settings: Settings) -> None:
    """Judge every method of params.yaml on the test rounds of every setting."""
    rules: EvaluateRules = settings.section("evaluate")
    study = Study.load(FEATURES)
    rounds, seeds, models = [], [], {}
    with progress("evaluate", len(study.settings)) as advance:
        for name in study.settings:
            setting = study.setting(name, settings.section("matching"), price=rules.shortfall_price)
            models[name] = {label: Trained.load(MODELS / label, name) for label in settings.methods}
            table, per_seed = evaluate(setting, models[name], rules)
            rounds.append(table)
            seeds.append(per_seed)
            advance()
    all_rounds, all_seeds = pd.concat(rounds, ignore_index=True), pd.concat(seeds, ignore_index=True)
    summary = summarise(all_rounds, all_seeds, bootstrap=rules.bootstrap)
    write_json(REPORTS / "metrics.json", summary)
    with replacing(REPORTS / "rounds.parquet") as path:
        all_rounds.to_parquet(path, index=False)
    _track(method_results(summary, all_seeds, models))


def _track(results: list) -> None:  # type: ignore[type-arg]
    """Log to MLflow; a store that is down costs the tracking, not the evaluation."""
    raise NotImplementedError


if __name__ == "__main__":
    main(run)
