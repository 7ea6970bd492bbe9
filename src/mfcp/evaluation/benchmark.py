"""The whole pipeline in memory, from validated tables to the comparison of methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mfcp.data.log.tables import Tables
from mfcp.data.pool.building import PoolSettings, build_pool
from mfcp.data.pool.task_pool import TaskPool
from mfcp.evaluation.compare import Summary, summarise
from mfcp.evaluation.metrics import EvaluateSettings, evaluate
from mfcp.methods.base import FinetuneSettings, Method, Trained
from mfcp.methods.pretrain import PretrainSettings, epochs, pretrain
from mfcp.progress import progress
from mfcp.study.featurize import FeaturizeSettings, featurize
from mfcp.study.reference import solved_setting
from mfcp.study.setting import RoundSettings


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


@dataclass(frozen=True)
class BenchmarkResult:
    """What a benchmark found.

    Attributes:
        summary: the content of metrics.json.
        rounds, seeds: per-round and per-seed metrics.
        history: "setting/method" → curves.
        pool: what the log gave, with what of it is emulated.
    """

    summary: Summary
    rounds: pd.DataFrame
    seeds: pd.DataFrame
    history: dict[str, dict[str, np.ndarray]]
    pool: TaskPool


def benchmark(tables: Tables, plan: BenchmarkSettings) -> BenchmarkResult:
    """Pool, featurize, pretrain, fit every method and judge it, setting by setting."""
    pool = build_pool(tables, plan.pool, seed=plan.seed)
    with progress("featurize", len(plan.featurize.seeds)) as advance:
        study = featurize(tables, pool, plan.featurize, advance=advance)
    rounds, seeds, history = [], [], {}
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
        rounds.append(table)
        seeds.append(per_seed)
    all_rounds, all_seeds = pd.concat(rounds, ignore_index=True), pd.concat(seeds, ignore_index=True)
    summary = summarise(all_rounds, all_seeds, bootstrap=plan.evaluate.bootstrap)
    return BenchmarkResult(summary, all_rounds, all_seeds, history, pool)
