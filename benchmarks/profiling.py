"""What profiling buys: excess by the families that were profiled, and by steps measured of the task itself.

    python benchmarks/profiling.py                 the default platform, some minutes
    python benchmarks/profiling.py --data DIR      a folder in the log schema

Tuning settings and seeds, test rounds of 5 tasks, the method `mfcp_x`. First by the share of tasks that are learned
from (training and validation together); the test tasks are all others, so that rows differ in them. Then with k steps
of every task of a round measured on *one* cluster: the one that is predicted to be its fastest, where measuring is
cheapest, or the one whose measurement is expected to change the plan most for the better (`cell_values`). Errors of log
time have a part that a task's clusters share and parts of their own, as out-of-fold errors have; a measurement with
error `STEP_SD` / sqrt(k) moves the times of all clusters, and shrinks their spread (conditioning of a normal
distribution). Last, the ceilings: k steps on the cluster of a setting that turns out best, and only the part of the
errors that clusters share left. Brackets are paired 95 % intervals of the ratio to no measurement, by a bootstrap over
setting, seed and round.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.tuning import TuningLog
from mfcp.arrays import Floats, Ints
from mfcp.errors import guarded
from mfcp.evaluation.compare import resample
from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.methods.base import Method, Trained
from mfcp.progress import progress
from mfcp.rules.base import Belief
from mfcp.rules.measuring import cell_values
from mfcp.study.setting import Setting, gather

SEEDS = (1000, 1001, 1002)
SHARES = (0.1, 0.2, 0.35, 0.55)  # of tasks for training; validation adds 0.2
STEPS, CEILING, NOTHING = (1, 5, 20, 100), 20, "nothing"
STEP_SD = 0.1  # deviation of the log time of one step, an assumption
METHOD = {"kind": "two_stage", "forecasts": ["gp", "operators"], "rule": {"kind": "expected_cost"}}


def covariance(setting: Setting, model: Trained, s: int) -> Floats:
    """(M, M) covariance of out-of-fold errors of log time of the s-th seed: one variance that clusters share, and own.

    A free covariance of a dozen source tasks would follow their luck.
    """
    left_out = model.out_of_fold
    assert left_out is not None
    known = left_out.known[s] & setting.allowed
    error = np.where(known, np.log(np.where(known, setting.T, 1.0)) - left_out.log_time[s], 0.0)
    product = (error @ error.T) / np.maximum(known.astype(float) @ known.T, 1.0)
    shared = max(float(product[~np.eye(len(product), dtype=bool)].mean()), 0.0)
    result: Floats = shared + np.diag(np.maximum(np.diag(product) - shared, 1e-4))
    return result


def conditioned(belief: Belief, sigma: Floats, error: Floats, where: Ints, steps: int, seed: int) -> Belief:
    """The belief after so many steps of each task on one cluster.

    Args:
        belief: B rounds.
        sigma: (M, M) covariance of errors of log time.
        error: (B, M, N) true log times less predicted ones; 0 where a pair does not exist.
        where: (B, N) cluster of the measurement.
        steps: k.
        seed: of its noise.
    """
    M, noise = len(sigma), STEP_SD**2 / steps
    centred = (np.eye(M) - 1.0 / M) * np.sqrt(M / (M - 1))
    seen = np.take_along_axis(error, where[:, None], axis=1)
    seen = seen + np.random.default_rng(seed).normal(size=seen.shape) * np.sqrt(noise)
    gains = np.stack([sigma[:, m] / (sigma[m, m] + noise) for m in range(M)])  # (M measured, M)
    left = np.stack([sigma - np.outer(gains[m], sigma[m]) for m in range(M)])
    own = np.stack([np.sqrt(np.maximum(np.diag(centred @ each @ centred), 0.0)) for each in left])
    total = np.sqrt(np.maximum(np.diagonal(left, axis1=1, axis2=2), 0.0))
    gain, own_sd, log_sd = (np.moveaxis(each[where], 2, 1) for each in (gains, own, total))
    return replace(belief, T=belief.T * np.exp(gain * seen), own_sd=own_sd, log_sd=log_sd)


def by_steps(setting: Setting, model: Trained, rounds: int) -> pd.DataFrame:
    """Metrics of test rounds, `method` being what was measured."""
    reference = Reference.of(setting, rounds)
    beliefs = model.beliefs(setting, reference.rounds)
    sigmas = [covariance(setting, model, s) for s in range(len(beliefs))]
    errors, fastest = [], []
    for s, belief in enumerate(beliefs):
        seconds = gather(setting.T_true, reference.rounds[s : s + 1])
        errors.append(np.where(belief.allowed, np.log(np.where(belief.allowed, seconds, 1.0) / belief.T), 0.0))
        fastest.append(np.where(belief.allowed, belief.T, np.inf).argmin(axis=1))

    def judged(label: str, known: list[Belief]) -> pd.DataFrame:
        plans = np.concatenate([model.decide(setting, s, belief) for s, belief in enumerate(known)])
        table = pd.DataFrame(round_metrics(plans, reference, price=setting.price))
        table.insert(0, "round", np.tile(np.arange(rounds), len(setting.seeds)))
        table.insert(0, "seed", np.repeat(setting.seeds, rounds))
        table.insert(0, "method", label)
        table.insert(0, "setting", setting.name)
        return table

    def after(where: list[Ints], steps: int) -> list[Belief]:
        given = zip(beliefs, sigmas, errors, where, setting.seeds, strict=True)
        return [conditioned(belief, sigma, error, own, steps, seed) for belief, sigma, error, own, seed in given]

    tables = [judged(NOTHING, beliefs)]
    tables += [judged(f"{steps} step{'s' * (steps > 1)} on the fastest", after(fastest, steps)) for steps in STEPS]
    worth = []
    for belief, sigma, other in zip(beliefs, sigmas, fastest, strict=True):
        joint = np.broadcast_to(sigma, (*other.shape, *sigma.shape))
        value, _ = cell_values(belief, joint, STEP_SD**2 / CEILING, price=setting.price)
        worth.append(np.where(value.max(axis=1) > 0, value.argmax(axis=1), other))
    tables.append(judged(f"{CEILING} steps on the cluster of most value", after(worth, CEILING)))
    at = []
    for m in range(setting.clusters):
        there = [np.where(b.allowed[:, m], m, own) for b, own in zip(beliefs, fastest, strict=True)]
        at.append(judged(f"{CEILING} steps on the best cluster, in hindsight", after(there, CEILING)))
    tables.append(min(at, key=lambda table: float(table["penalised_excess"].mean())))
    shared = [
        replace(
            belief,
            T=belief.T * np.exp(error - error.sum(1, keepdims=True) / belief.allowed.sum(1, keepdims=True)),
            own_sd=np.full(belief.T.shape, 1e-3),
        )
        for belief, error in zip(beliefs, errors, strict=True)
    ]
    return pd.concat([*tables, judged("all but what clusters share", shared)], ignore_index=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR")
    parser.add_argument("--steps-only", action="store_true", help="the second table alone")
    options = parser.parse_args()
    log = TuningLog(options.data, SEEDS)
    shares = SHARES[-1:] if options.steps_only else SHARES
    learned, measured = [], []
    with progress("profiling", len(shares) * len(log.names)) as advance:
        for share in shares:
            study = log.usual if share == SHARES[-1] else log.study(share)
            excess, families = [], []
            for setting in log.each(study):
                start = log.start(setting, "gp", "operators")
                model = Method.parse(METHOD).fit(setting, start, log.settings.section("finetune"))
                excess.append(log.judge(setting, {"mfcp_x": model})["penalised_excess"].mean())
                known = (study.split == 0) | (study.split == 1)
                families.append(np.mean([len(np.unique(setting.group[own])) for own in known]))
                if share == SHARES[-1]:
                    measured.append(by_steps(setting, model, 200))
                advance()
            learned.append((share, np.mean(families), np.mean(excess)))
    title = f"{options.data.resolve().name if options.data else 'default'}: excess of mfcp_x"
    table = Table("tasks learned from", "groups (families or source tasks)", "excess", title=title)
    for share, count, mean in learned:
        table.add_row(f"{share + 0.2:.0%}", f"{count:.0f}", f"{mean:.4f}")
    Console(width=80).print(table)
    sample = resample(pd.concat(measured, ignore_index=True), 2000)
    table = Table("measured of each task", "excess", "ratio to nothing", title=title)
    for label in sample.methods:
        ratio = sample.ratio(label, NOTHING, "penalised_excess")
        assert ratio is not None
        text = f"{ratio['mean']:.2f} [{ratio['ci_low']:.2f}, {ratio['ci_high']:.2f}]"
        table.add_row(label, f"{sample.of(label, 'penalised_excess')[0]:.4f}", text)
    Console(width=80).print(table)


if __name__ == "__main__":
    sys.exit(guarded(main))
