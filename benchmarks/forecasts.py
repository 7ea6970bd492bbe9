"""How far forecasts of times are off on unseen families, and what that costs under each rule.

    python benchmarks/forecasts.py                            the default platform, a few minutes
    python benchmarks/forecasts.py --data DIR                 a folder in the log schema
    python benchmarks/forecasts.py --data DIR --drawn 6       on six settings that nothing was tuned on
    python benchmarks/forecasts.py --data DIR --without 8     without eight groups of tasks of each split: a small log

Tuning seeds, settings A to C, rounds of 5 tasks. rms: root mean square error of log time on test tasks; own: the part
of it that a task's clusters do not share. Then penalised excess under the rules: priced (predictions taken for the
truth, at the metric's price), a margin on gamma, and expected cost with the own error charged, the own error up to a
deviation of .2, or the total error. Last, the ratios of the third and the fourth to the first, and of the third to the
first line's total, the method that mfcp had before; brackets are paired 95 % intervals, clustered by setting, seed and
round.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.tuning import TuningLog
from mfcp.data.pool.splits import split_groups
from mfcp.errors import guarded
from mfcp.evaluation.compare import resample
from mfcp.evaluation.metrics import log_time_errors
from mfcp.methods.base import Method
from mfcp.progress import progress
from mfcp.study.setting import PARTS
from mfcp.study.study_data import Study

FORECASTS: dict[str, dict[str, Any]] = {
    "networks and processes apart, equal": {"forecasts": ["nets_before", "gp_before"], "weights": "equal"},
    "networks": {"forecasts": ["nets"]},
    "trees": {"forecasts": ["trees"]},
    "processes": {"forecasts": ["gp"]},
    "operators": {"forecasts": ["operators"]},
    "processes and operators": {"forecasts": ["gp", "operators"]},
    "networks, processes and operators": {"forecasts": ["nets", "gp", "operators"]},
}
RULES: dict[str, dict[str, Any]] = {
    "priced": {"kind": "priced"},
    "margin": {"kind": "margin"},
    "own": {"kind": "expected_cost", "most": 2.0},
    "at most .2": {"kind": "expected_cost"},
    "total": {"kind": "expected_cost", "charges": "total", "most": 2.0},
}
BEFORE = next(iter(FORECASTS))


def smaller(study: Study, without: int) -> Study:
    """The study without so many groups of tasks to learn from or to tune on, others for each seed."""
    split, groups = study.split.copy(), split_groups(study.pool)
    for own, seed in zip(split, study.seeds, strict=True):
        names = np.unique(groups[own != PARTS["test"]])
        dropped = np.random.default_rng([seed, 9]).permutation(names)[:without]
        own[np.isin(groups, dropped) & (own != PARTS["test"])] = -1
    return replace(study, split=split)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder in the log schema (default: the platform of params.yaml)")
    parser.add_argument("--seeds", default="1000,1001,1002,1003,1004", help="at least 1000: for tuning")
    parser.add_argument("--drawn", type=int, default=0, help="so many other settings instead of A to C")
    parser.add_argument("--without", type=int, default=0, help="groups of tasks that are dropped from each split")
    parser.add_argument("--bootstrap", type=int, default=2000)
    arguments = parser.parse_args()
    seeds = tuple(map(int, arguments.seeds.split(",")))
    if min(seeds) < 1000:
        parser.error(f"--seeds: {min(seeds)} is below 1000; lower ones are for reports")
    log = TuningLog(arguments.data, seeds, arguments.drawn)
    study = smaller(log.usual, arguments.without) if arguments.without else log.usual
    wanted = tuple(dict.fromkeys(name for own in FORECASTS.values() for name in own["forecasts"]))
    tables, off = [], []
    with progress("forecasts", len(log.names)) as advance:
        for setting in log.each(study):
            base = log.start(setting, *wanted)
            trained = {}
            for label, own in FORECASTS.items():
                for rule, spec in RULES.items():
                    method = Method.parse({"kind": "two_stage", "rule": spec, **own})
                    trained[f"{label}: {rule}"] = method.fit(setting, base, log.settings.section("finetune"))
            tables.append(log.judge(setting, trained))
            off.append(log_time_errors(setting, {label: trained[f"{label}: priced"] for label in FORECASTS}))
            advance()
    show(pd.concat(tables, ignore_index=True), pd.concat(off, ignore_index=True), arguments)


def show(found: pd.DataFrame, off: pd.DataFrame, arguments: argparse.Namespace) -> None:
    shown = Table(title=f"{arguments.data or 'default'}, settings {', '.join(found['setting'].unique())}")
    shown.add_column("forecast of times")
    for column in ("rms", "own", *RULES, "own / priced", "at most .2 / priced", "own / before"):
        shown.add_column(column, justify="right")
    sample = resample(found, arguments.bootstrap)
    for label in FORECASTS:
        own = off[off["method"] == label]
        means = [f"{sample.of(f'{label}: {rule}', 'penalised_excess')[0]:.4f}" for rule in RULES]
        priced = f"{label}: priced"
        pairs = ((f"{label}: own", priced), (f"{label}: at most .2", priced), (f"{label}: own", f"{BEFORE}: total"))
        ratios = [sample.ratio(*pair, "penalised_excess") for pair in pairs]
        texts = [f"{r['mean']:.2f} [{r['ci_low']:.2f}, {r['ci_high']:.2f}]" for r in ratios]
        shown.add_row(label, *(f"{own[name].mean():.3f}" for name in ("log_time_rms", "log_time_own")), *means, *texts)
    Console(width=190).print(shown)


if __name__ == "__main__":
    sys.exit(guarded(main))
