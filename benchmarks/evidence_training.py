"""What the same runs bring when a method is trained on them instead: for `benchmarks/evidence.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.evidence_rounds import Way, play
from mfcp.arrays import Floats
from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.methods.base import Trained
from mfcp.study.setting import PARTS, Setting

HALF = 100  # rounds after which is trained again
TENTH = 0.1  # of the groups that training does without

Fit = Callable[[Setting], Trained]


def retrained(setting: Setting, trained: Trained, reference: Reference, fit: Fit, noise: float) -> pd.DataFrame:
    """The later rounds of every seed by a method trained again on what the first `HALF` have run, and by evidence.

    The runs are those of the plans of `mfcp_x`; a pair that ran twice has the mean. Networks over operators are not
    trained again.
    """
    plans = trained.plan(setting, reference.rounds).reshape(*reference.rounds.shape)
    frames = []
    for s, seed in enumerate(setting.seeds):
        rng = np.random.default_rng([seed, 1])
        tasks, clusters = reference.rounds[s, :HALF].ravel(), plans[s, :HALF].ravel()
        seen = setting.T_true[clusters, tasks] * np.exp(noise * rng.standard_normal(len(tasks)))
        own = _of_seed(setting, s)
        later = _later(reference, s)
        longer = with_runs(own, tasks, clusters, seen)
        both = {"mfcp_x": plans[s, HALF:], "trained again": fit(longer).plan(longer, later.rounds)}
        for name, plan in both.items():
            table = pd.DataFrame(round_metrics(plan, later, price=setting.price))
            frames.append(table.assign(method=name, seed=seed, round=np.arange(HALF, HALF + len(table))))
    for name, way in (("own", Way("own")), ("own, worth 0.002", Way("own", budget=None, worth=0.002))):
        table = play(trained, setting, reference, way)
        frames.append(table[table["round"] >= HALF].assign(method=name))
    return pd.concat(frames, ignore_index=True).assign(setting=setting.name)


def with_runs(setting: Setting, tasks: np.ndarray, clusters: np.ndarray, seconds: Floats) -> Setting:
    """One seed's setting with runs of test tasks among what is learned: copies that exist where they ran alone."""
    names, at = np.unique(tasks, return_inverse=True)
    total, count = np.zeros((setting.clusters, len(names))), np.zeros((setting.clusters, len(names)))
    np.add.at(total, (clusters, at), np.log(seconds))
    np.add.at(count, (clusters, at), 1)
    ran = count > 0
    T = np.where(ran, np.exp(total / np.maximum(count, 1)), np.nan)
    A = np.where(ran, setting.A[:, names], np.nan)

    def longer(values: np.ndarray, more: np.ndarray) -> np.ndarray:
        return np.concatenate([values, more], axis=-1)

    return replace(
        setting,
        source_task=longer(setting.source_task, setting.source_task[names]),
        family=longer(setting.family, setting.family[names]),
        group=longer(setting.group, setting.group[names]),
        Z=np.concatenate([setting.Z, setting.Z[:, names]], axis=1),
        split=longer(setting.split, np.full((1, len(names)), PARTS["train"])),
        T=longer(setting.T, T),
        A=longer(setting.A, A),
        runs=longer(setting.runs, np.where(ran, setting.runs[:, names], 0)),
        T_true=longer(setting.T_true, T),
        A_true=longer(setting.A_true, A),
        allowed=longer(setting.allowed, ran),
        operator_times=None
        if setting.operator_times is None
        else longer(setting.operator_times, setting.operator_times[:, :, names]),
    )


def without_a_tenth(setting: Setting) -> tuple[Setting, int]:
    """The setting without a tenth of the groups to learn from, and how many runs of a pair that is, in the mean."""
    split, runs = setting.split.copy(), []
    for s, seed in enumerate(setting.seeds):
        learned = np.isin(split[s], [PARTS["train"], PARTS["validation"]])
        names = np.unique(setting.group[learned])
        dropped = np.random.default_rng([seed, 3]).permutation(names)[: max(1, round(TENTH * len(names)))]
        gone = learned & np.isin(setting.group, dropped) & (split[s] == PARTS["train"])
        split[s][gone] = -1
        runs.append(int(setting.allowed[:, gone].sum()))
    return replace(setting, split=split), round(float(np.mean(runs)))


def _of_seed(setting: Setting, s: int) -> Setting:
    part = slice(s, s + 1)
    times = None if setting.operator_times is None else setting.operator_times[part]
    return replace(
        setting, seeds=setting.seeds[part], Z=setting.Z[part], split=setting.split[part], gamma=setting.gamma[part],
        operator_times=times,
    )  # fmt: skip


def _later(reference: Reference, s: int) -> Reference:
    """The rounds of one seed from the `HALF`-th on."""
    count = reference.rounds.shape[1]
    at = np.arange(s * count + HALF, (s + 1) * count)
    return Reference(
        reference.rounds[s : s + 1, HALF:], reference.truth.take(at), reference.optimal[at], reference.makespan[at],
        reference.least_cost[at],
    )  # fmt: skip
