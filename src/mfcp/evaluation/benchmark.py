"""The whole pipeline in memory, from validated tables to the comparison of methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mfcp.data.log.tables import Tables
from mfcp.data.pool.coverage import Coverage, refuse_thin
from mfcp.data.pool.run_totals import totalled
from mfcp.data.pool.task_pool import TaskPool
from mfcp.errors import DataError
from mfcp.evaluation.compare import Summary, summarise
from mfcp.evaluation.details import details
from mfcp.evaluation.metrics import EvaluateSettings, evaluate
from mfcp.methods.base import FinetuneSettings, Method, Trained
from mfcp.methods.pretrain import PretrainSettings, epochs, pretrain
from mfcp.progress import progress
from mfcp.study.featurize import FeaturizeSettings, facts_of, featurize
from mfcp.study.reference import solved_setting
from mfcp.study.setting import RoundSettings
from mfcp.study.study_data import Study
from mfcp.study.study_pool import PoolSettings, build_pool


@dataclass(frozen=True)
class BenchmarkSettings:
    """Everything a benchmark is told; the sections of params.yaml."""

    pool: PoolSettings
    featurize: FeaturizeSettings
    matching: RoundSettings
    pretrain: PretrainSettings
    finetune: FinetuneSettings
    methods: Mapping[str, Method]
    evaluate: EvaluateSettings
    seed: int = 0
    where: str = "log"
    """What the log is called in messages."""
    asked: frozenset[str] = frozenset()
    """Of clusters, settings and tasks: which a person has asked for, who is told where a log cannot have so many; the
    others are upper limits."""


@dataclass(frozen=True)
class BenchmarkResult:
    """What a benchmark found.

    Attributes:
        summary: the content of metrics.json.
        rounds, seeds: per-round and per-seed metrics.
        history: "setting/method" → curves.
        pool: what the log gave, with what of it is emulated.
        data: the same in words and numbers, the content of pool.json.
        details: setting → `mfcp.evaluation.details.details`.
    """

    summary: Summary
    rounds: pd.DataFrame
    seeds: pd.DataFrame
    history: dict[str, dict[str, np.ndarray]]
    pool: TaskPool
    data: dict[str, Any]
    details: dict[str, Any]


def benchmark(tables: Tables, plan: BenchmarkSettings) -> BenchmarkResult:
    """Pool, featurize, pretrain, fit every method and judge it, setting by setting.

    Raises:
        DataError: the log is too small for any comparison, or for what was asked for, naming every limit.
    """
    tables = totalled(tables)
    refuse_thin(Coverage.of(tables), benchmark=True, where=plan.where)
    pool = build_pool(tables, plan.pool, seed=plan.seed)
    with progress("featurize", len(plan.featurize.seeds)) as advance:
        study = featurize(tables, pool, plan.featurize, advance=advance)
    _refuse_larger(study, plan)
    rounds, seeds, history, found = [], [], {}, {}
    for name in study.settings:
        setting = solved_setting(study, name, plan.matching, price=plan.evaluate.shortfall_price)
        with progress(f"{name}: pretrain", epochs(plan.pretrain)) as advance:
            base = pretrain(setting, plan.pretrain, advance=advance)
        trained: dict[str, Trained] = {}
        for label, method in plan.methods.items():
            with progress(f"{name}: {label}", method.steps(plan.finetune)) as advance:
                trained[label] = method.fit(setting, base, plan.finetune, advance=advance)
            history[f"{name}/{label}"] = trained[label].history
        with progress(f"{name}: evaluate"):
            table, per_seed = evaluate(setting, trained, plan.evaluate)
            found[name] = details(setting, trained, table)
        rounds.append(table)
        seeds.append(per_seed)
    all_rounds, all_seeds = pd.concat(rounds, ignore_index=True), pd.concat(seeds, ignore_index=True)
    summary = summarise(all_rounds, all_seeds, bootstrap=plan.evaluate.bootstrap)
    study = replace(study, pool=_noted(study, plan.matching.tasks))
    return BenchmarkResult(summary, all_rounds, all_seeds, history, study.pool, facts_of(study), found)


def _noted(study: Study, tasks: int) -> TaskPool:
    """The study's pool, with a note where its rounds are smaller than asked for."""
    largest = study.largest_round()
    if largest >= tasks:
        return study.pool
    word = "task" if largest == 1 else "tasks"
    note = f"rounds of {largest} {word} instead of {tasks}: the smallest part of a split has no more"
    return replace(study.pool, notes=(*study.pool.notes, note))


def _refuse_larger(study: Study, plan: BenchmarkSettings) -> None:
    largest = {
        "settings": (plan.featurize.settings, len(study.settings)),
        "clusters": (plan.featurize.clusters, len(next(iter(study.settings.values())))),
        "tasks": (plan.matching.tasks, study.largest_round()),
    }
    over = {name: most for name, (want, most) in largest.items() if name in plan.asked and want > most}
    if over:
        listed = "; ".join(f"--{name} {largest[name][0]}: at most {most}" for name, most in over.items())
        options = " ".join(f"--{name} {most}" for name, most in over.items())
        raise DataError(
            f"{plan.where}: too small for what is asked for: {listed}. What works: {options}, or none of these"
        )
