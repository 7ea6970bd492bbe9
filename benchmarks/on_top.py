"""Training for the decision on top of the expected-cost rule: ideas, tried on settings and seeds for tuning only.

    python benchmarks/on_top.py                                   every table, on the default platform; some minutes
    python benchmarks/on_top.py --tables rounds --seeds 1000,1001
    python benchmarks/on_top.py --data DIR                        on a folder in the log schema

Every line is the ratio of penalised excess on test rounds of settings A, B, C to the same predictors under the same
rule without that training: below 1 it helps. Brackets are paired 95 % intervals, clustered by setting, seed and round.

rounds: losses over plans, on rounds as they are drawn, and on the quarter of them closest to another decision, where
    predictions have to change least for the best plan under the labels.
folds: the mean of networks that each left out a fold of families, all trained for the decision without it, and
    calibrated on it after that training; against the same networks before.
tasks: MFCP-AD for rounds of 20 tasks, trained on such rounds, on rounds of 5, and first on these, then on those; under
    the rule, and as published.
data: SPO+ with a third, a half and three quarters of the tasks to learn from, and with labels from eight times the
    runs of each pair, drawn around the truth that the emulator knows.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.tuning import TuningLog
from mfcp.arrays import Ints
from mfcp.errors import guarded
from mfcp.evaluation.compare import resample
from mfcp.methods.base import FinetuneSettings, Method, Trained
from mfcp.methods.finetuned import TrainingRounds
from mfcp.methods.plan_losses import PlanLosses
from mfcp.methods.pretrain import Pretrained
from mfcp.methods.surrogates import ExpectedCosts, PlanCosts
from mfcp.progress import progress
from mfcp.study.setting import Setting
from mfcp.study.study_data import Study

ALONE = {"kind": "two_stage", "rule": "expected_cost"}
LOSSES = {
    name: {"kind": "plan_loss", "surrogate": name, "rule": "expected_cost"}
    for name in ("spo_plus", "softmin", "listwise")
}
IMPLICIT = {"kind": "decision_focused", "gradient": "implicit", "rule": "expected_cost"}
CLOSE = 4  # of so many rounds drawn, one is close
RUNS = 8
MANY = 20  # tasks of a large round
LARGE = {"rounds": 4, "tasks": None}  # a step on rounds of as many
SHARES = (0.33, 0.55, 0.75)
Row = tuple[str, str]  # of which method, to which


@dataclass(frozen=True, kw_only=True)
class Chosen(Setting):
    """A setting that trains on rounds chosen before.

    Attributes:
        chosen: (S, R, N).
    """

    chosen: Ints

    def rounds(self, part: str | tuple[str, ...], count: int) -> Ints:
        return self.chosen[:, :count] if part == "train" else super().rounds(part, count)


def close_rounds(setting: Setting, base: Pretrained, method: PlanLosses, count: int) -> Chosen:
    """Of CLOSE · count rounds, those where the best plan under the labels is nearest to being chosen, and is not."""
    rounds = setting.rounds("train", CLOSE * count)
    calibration, heads = base.spread(method.loss), base.start(setting, method.loss)
    known = (setting.price, None if setting.zeta is None else torch.as_tensor(setting.zeta).float())
    gaps = []
    with torch.no_grad():
        for part in np.array_split(rounds, -(-rounds.shape[1] // 400), axis=1):
            drawn = TrainingRounds.of(setting, heads, part, np.ones(part.shape[:2]), calibration, method.rule)
            given = (drawn.gamma.float(), drawn.allowed, *known)
            T_hat, A_hat, T, A = (x.float() for x in (drawn.T_hat, drawn.A_hat, drawn.T, drawn.A))
            believed = ExpectedCosts(*given, drawn.log_sd.float(), drawn.a_sd.float())(T_hat, A_hat)
            best = PlanCosts(*given)(T, A).argmin(-1, keepdim=True)
            gaps.append((believed.gather(-1, best)[..., 0] / believed.amin(-1) - 1.0).numpy())
    gap = np.concatenate(gaps, axis=1)
    order = np.where(gap > 1e-6, gap, np.inf).argsort(axis=1)[:, :count]
    rng = np.random.default_rng(0)
    order = rng.permuted(order, axis=1)  # not from close to far
    own = {field.name: getattr(setting, field.name) for field in fields(Setting) if field.init}
    return Chosen(**own, chosen=np.take_along_axis(rounds, order[:, :, None], axis=1))


def fit(method: dict[str, Any], setting: Setting, base: Pretrained, settings: FinetuneSettings) -> Trained:
    return Method.parse(method).fit(setting, base, settings)


def rounds_table(platform: TuningLog) -> tuple[list[pd.DataFrame], list[Row]]:
    tables, budget = [], platform.settings.section("finetune")
    for setting in platform.each(platform.usual):
        base = platform.start(setting)
        trained = {"alone": fit(ALONE, setting, base, budget)}
        for name, row in LOSSES.items():
            method = Method.parse(row)
            assert isinstance(method, PlanLosses)
            trained[name] = method.fit(setting, base, budget)
            close = close_rounds(setting, base, method, budget.steps * budget.rounds)
            trained[f"{name}, close"] = method.fit(close, base, budget)
        tables.append(platform.judge(setting, trained))
    every = [each for name in LOSSES for each in (name, f"{name}, close")]
    return tables, [(name, "alone") for name in every]


def folds_table(platform: TuningLog) -> tuple[list[pd.DataFrame], list[Row]]:
    tables, budget = [], platform.settings.section("finetune")
    for setting in platform.each(platform.usual):
        base = platform.start(setting, "nets")
        trained = {"alone": fit(ALONE | {"forecasts": ["nets"]}, setting, base, budget)}
        trained |= {name: fit(row | {"forecast": "nets"}, setting, base, budget) for name, row in LOSSES.items()}
        tables.append(platform.judge(setting, trained))
    return tables, [(name, "alone") for name in LOSSES]


def tasks_table(platform: TuningLog) -> tuple[list[pd.DataFrame], list[Row]]:
    tables, rows, own = [], [], platform.plan.settings("tasks", MANY)
    few, many = platform.settings.section("finetune"), own.section("finetune").model_copy(update=LARGE)
    few = few.model_copy(update={"tasks": platform.settings.section("matching").tasks})
    rounds = own.section("matching").validation_rounds
    for setting in platform.each(platform.usual, tasks=MANY, validation_rounds=rounds):
        base, trained, rows = platform.start(setting), {}, []
        for rule in ("expected_cost", "point"):
            method = IMPLICIT | {"rule": rule}
            first = fit(method, setting, base, few)
            warm = replace(base, heads={"log_time": first.heads})
            alone = f"alone, {rule}"
            own_rows = {
                f"trained on {MANY} tasks, {rule}": fit(method, setting, base, many),
                f"trained on {few.tasks} tasks, {rule}": first,
                f"on {few.tasks}, then on {MANY}, {rule}": fit(method, setting, warm, many),
            }
            trained |= own_rows | {alone: fit(ALONE | {"rule": rule}, setting, base, many)}
            rows += [(label, alone) for label in own_rows]
        tables.append(platform.judge(setting, trained, own.section("evaluate").rounds))
    return tables, rows


def data_table(platform: TuningLog) -> tuple[list[pd.DataFrame], list[Row]]:
    budget, tables, rows = platform.settings.section("finetune"), [], []
    studies = {f"{share:.0%} of the tasks": platform.study(share) for share in SHARES}
    if platform.pool.T_true is not None:
        studies[f"{RUNS} times the runs"] = more_runs(platform.usual)
    for what, study in studies.items():
        for setting in platform.each(study):
            base = platform.start(setting)
            trained = {
                f"alone, {what}": fit(ALONE, setting, base, budget),
                f"spo_plus, {what}": fit(LOSSES["spo_plus"], setting, base, budget),
            }
            tables.append(platform.judge(setting, trained))
        rows.append((f"spo_plus, {what}", f"alone, {what}"))
    return tables, rows


def more_runs(study: Study) -> Study:
    """Labels as of RUNS times the runs: success drawn from the truth, and the error of times divided by √RUNS."""
    pool, rng = study.pool, np.random.default_rng(0)
    assert pool.T_true is not None
    assert pool.A_true is not None
    runs = RUNS * pool.runs
    shares = rng.binomial(runs, np.nan_to_num(pool.A_true)) / np.maximum(runs, 1)
    T = pool.T_true * (pool.T / pool.T_true) ** (RUNS**-0.5)
    return replace(study, pool=replace(pool, T=T, A=np.where(np.isfinite(pool.A), shares, np.nan), runs=runs))


TABLES = {"rounds": rounds_table, "folds": folds_table, "tasks": tasks_table, "data": data_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder in the log schema (default: the platform of params.yaml)")
    parser.add_argument("--seeds", default="1000,1001,1002,1003,1004,1005", help="at least 1000: for tuning")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--bootstrap", type=int, default=2000)
    arguments = parser.parse_args()
    names, given = arguments.tables.split(","), arguments.seeds.split(",")
    if unknown := [name for name in names if name not in TABLES]:
        parser.error(f"--tables: no table '{unknown[0]}'; known: {', '.join(TABLES)}")
    if bad := [seed for seed in given if not seed.isdecimal() or int(seed) < 1000]:
        parser.error(f"--seeds: '{bad[0]}' is no whole number of at least 1000; lower ones are for reports")
    seeds = tuple(map(int, given))
    platform = TuningLog(arguments.data, seeds)
    shown = Table(title=f"on top of the rule: {arguments.data or 'default'}, settings A-C, {len(seeds)} seeds")
    for column in ("table", "training", "penalised excess", "without", "ratio [95 %]", "p"):
        shown.add_column(column, justify="left" if column in ("table", "training") else "right")
    with progress("on top of the rule", len(names)) as advance:
        for name in names:
            tables, rows = TABLES[name](platform)
            found = pd.concat(tables, ignore_index=True)
            for label, base in rows:
                sample = resample(found[found["method"].isin([label, base])], arguments.bootstrap)
                ratio = sample.ratio(label, base, "penalised_excess")
                means = [f"{sample.of(each, 'penalised_excess')[0]:.4f}" for each in (label, base)]
                text = f"{ratio['mean']:.3f} [{ratio['ci_low']:.3f}, {ratio['ci_high']:.3f}]"
                shown.add_row(name, label, *means, text, f"{ratio['p']:.2g}")
            shown.add_section()
            advance()
    Console(width=130).print(shown)


if __name__ == "__main__":
    sys.exit(guarded(main))
