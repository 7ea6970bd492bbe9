"""`python benchmarks/operator_study.py --data DIR --name NAME`: does learning help once clusters queue?

DIR holds a log: `data/raw`, that of the emulated platform, or one of runs that took place. Methods learn from it as in
every benchmark, in `SETTINGS` choices of clusters. Then rounds of test tasks arrive one after another, a plan sends
each task to a cluster, and the cluster's own scheduler runs it there, with true times and failures. A row per run goes
to `data/operator_study/NAME.parquet`; `python -m benchmarks.operator_page` writes docs/operator.md from them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Ints
from mfcp.errors import guarded
from mfcp.files import replacing
from mfcp.progress import progress
from mfcp.simulator.beliefs import GivenDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

ROOT = Path(__file__).parents[1]
NUMBERS = ROOT / "data/operator_study"
METHODS, BASE, TRUTH = ("tam", "tsm_log", "mfcp_ad", "mfcp_x"), "tsm_log", "true times"
LOADS, MIDDLE = (0.5, 0.8, 1.1), 0.8
POLICIES, REFERENCE = ("easy", "fifo", "las", "srsf"), "easy"
SETTINGS, SEEDS, ROUNDS, POOL = 12, 10, 40, 16
SIZES, PARTS = (1, 2, 4, 8), (0.5, 0.25, 0.15, 0.1)
GAMMAS = {"gamma none": None, "gamma high": 0.95}
"""Quantiles of the reliability of time-optimal plans; `matching.gamma_quantile` of params.yaml is the usual one."""
RETRIES = 60  # enough for every task to end: none leaves the means
CLUSTER = Cluster.parse(str(POOL))


class Arrivals:
    """The tasks of one setting and seed: when they come, and how wide they are; the same for every plan.

    Args:
        rounds: (R, N) tasks.
        T, A: (M, n) true seconds and success probabilities.
        best: (R, N) plan of least makespan by the truth, which sets the load.
        load: accelerator-seconds of that plan, failed attempts included, over those of all clusters until the last
            round arrives.
        seed: of widths and luck.
    """

    def __init__(self, rounds: Ints, T: Floats, A: Floats, best: Ints, load: float, seed: int) -> None:
        rng = np.random.default_rng([seed, 26])
        self.rounds, self.task, self.T, self.A, self.seed = rounds, rounds.ravel(), T, np.clip(A, 0.1, 1.0), seed
        self.gpus = rng.choice(SIZES, len(self.task), p=PARTS)
        work = (occupied(T, self.A)[best.ravel(), self.task] * self.gpus).sum()
        gap = work / (len(rounds) * len(T) * POOL * load)
        self.submit = np.repeat(np.arange(len(rounds)) * gap, rounds.shape[1])
        self.names = np.array([f"round {r}, task {k}" for r, k in np.ndindex(*rounds.shape)])

    def run(self, plan: Ints, told: Floats, policy: str) -> dict[str, float]:
        """All clusters under a policy, for a (R, N) plan and (M, n) seconds that the schedulers are told."""
        where = plan.ravel()
        jct, lost = np.empty(len(where)), 0.0
        for i in range(len(self.T)):
            rows = np.flatnonzero(where == i)
            if len(rows) == 0:
                continue
            own = self.task[rows]
            jobs = self._jobs(rows, self.T[i, own], success=self.A[i, own])
            belief = GivenDurations(seconds=tuple(np.maximum(told[i, own], 1e-3).tolist()))
            outcome = simulate(jobs, CLUSTER, Policy.build(policy), belief=belief, retries=RETRIES, seed=self.seed)
            jct[rows] = outcome.jct
            lost += float(outcome.lost.sum())
        assert np.isfinite(jct).all(), "a task was given up: give more RETRIES"
        return {"jct": float(jct.mean()), "p95": float(np.percentile(jct, 95)), "lost": lost / 3600.0}

    def dispatch(self, T: Floats, A: Floats, policy: str, allowed: np.ndarray) -> Ints:
        """(R, N) plan of one who sees the queues: each task goes where the sum of completion times grows least.

        Rounds come in turn, the longest task of a round first. What a choice does to all tasks so far is simulated,
        under the cluster's own policy, with (M, n) believed seconds and probabilities: a task occupies its expected
        time, failed attempts included. The future, and luck, are not known.
        """
        seconds = np.where(allowed, occupied(T, np.clip(A, 0.1, 1.0)), np.inf)
        rows: list[list[int]] = [[] for _ in T]
        total, plan = np.zeros(len(T)), np.empty(len(self.task), np.int64)
        width = self.rounds.shape[1]
        for r in range(len(self.rounds)):
            of_round = np.arange(r * width, (r + 1) * width)
            longest = np.argsort(-seconds[:, self.task[of_round]].min(axis=0), kind="stable")
            for k in of_round[longest]:
                after = np.full(len(T), np.inf)
                for i in np.flatnonzero(np.isfinite(seconds[:, self.task[k]])):
                    own = np.sort([*rows[i], k])
                    jobs = self._jobs(own, seconds[i, self.task[own]])
                    after[i] = simulate(jobs, CLUSTER, Policy.build(policy)).jct.sum()
                i = int((after - total).argmin())
                rows[i].append(int(k))
                total[i], plan[k] = after[i], i
        return plan.reshape(self.rounds.shape)

    def _jobs(self, rows: Ints, seconds: Floats, **columns: Floats) -> Jobs:
        one = np.ones(len(rows))
        return Jobs(self.names[rows], self.submit[rows], self.gpus[rows], one, seconds, **columns)


def occupied(T: Floats, A: Floats) -> Floats:
    """Expected seconds until success: an attempt that fails does so at a uniform point."""
    return np.asarray(T * (1 + (1 / A - 1) / 2))


def study_of(data: Path) -> tuple[Any, Any]:
    """The study of a log in all settings, and the settings of the project."""
    from mfcp.data.log.validation import validate
    from mfcp.data.sources.folder import Folder
    from mfcp.settings import Settings
    from mfcp.study.featurize import featurize
    from mfcp.study.study_pool import build_pool

    settings = Settings.load(ROOT / "params.yaml")
    content = dict(settings.content)
    content["featurize"] = {**content["featurize"], "seeds": list(range(SEEDS)), "settings": SETTINGS}
    settings = Settings(content, settings.where)
    tables = validate(Folder(path=str(data)).read(0), max_bad_share=0.5).tables
    with progress("featurize"):
        study = featurize(tables, build_pool(tables, settings.section("pool"), seed=0), settings.section("featurize"))
    return study, settings


def fitted(setting: Any, settings: Any) -> dict[str, Any]:
    """Label → the method, trained in this setting."""
    from mfcp.methods.pretrain import epochs, pretrain

    plan, models = settings.section("pretrain"), {}
    with progress(f"{setting.name}: pretrain", epochs(plan)) as advance:
        base = pretrain(setting, plan, advance=advance)
    for label in METHODS:
        method = settings.methods[label]
        with progress(f"{setting.name}: {label}", method.steps(settings.section("finetune"))) as advance:
            models[label] = method.fit(setting, base, settings.section("finetune"), advance=advance)
    return models


class Plans:
    """(S, R, N) plans of every method in one setting, and (S, M, n) beliefs; the truth is one of the methods."""

    def __init__(self, setting: Any, models: dict[str, Any], price: float) -> None:
        from mfcp.evaluation.metrics import Reference, round_metrics

        self.setting, self.models = setting, models
        self.reference = Reference.of(setting, ROUNDS)
        self.shape = (len(setting.seeds), ROUNDS, setting.matching.tasks)
        truth = np.broadcast_to(setting.T_true, (self.shape[0], *setting.T_true.shape))
        sure = np.broadcast_to(setting.A_true, truth.shape)
        self.told = {label: model.predict(setting) for label, model in models.items()} | {TRUTH: (truth, sure)}
        self.usual = {label: self.plan(setting, label) for label in self.told}
        self.excess = {}
        for label, plans in self.usual.items():
            found = round_metrics(plans.reshape(-1, self.shape[2]), self.reference, price=price)["penalised_excess"]
            self.excess[label] = found.reshape(self.shape[:2]).mean(axis=1)

    def plan(self, setting: Any, label: str) -> Ints:
        """Plans of a method in this setting or a changed one."""
        from mfcp.evaluation.metrics import Reference

        if label == TRUTH:
            made = self.reference if setting is self.setting else Reference.of(setting, ROUNDS)
            return np.asarray(made.optimal.reshape(self.shape))
        return np.asarray(self.models[label].plan(setting, self.reference.rounds).reshape(self.shape))

    def changed(self) -> dict[str, dict[str, Ints]]:
        """Plans for another gamma, or for tasks side by side: name → label → plans."""
        from mfcp.study.reference import with_gamma

        labels, found = (BASE, "mfcp_x", TRUTH), {}
        for name, quantile in GAMMAS.items():
            other = replace(self.setting, gamma=np.zeros(self.shape[0]))
            if quantile is not None:
                rounds = self.setting.matching.model_copy(update={"gamma_quantile": quantile})
                other = with_gamma(replace(self.setting, matching=rounds))
            found[name] = {label: self.plan(other, label) for label in labels}
        side_by_side = replace(self.setting, speedup=fit_speed_up(self.setting))
        found["zeta"] = {label: self.plan(side_by_side, label) for label in labels}
        return found


def fit_speed_up(setting: Any) -> Any:
    """Eq. (16) for each cluster: the time in which it is through with n tasks at once, over the sum of their times."""
    from mfcp.matching.speedup import SpeedUp

    rng, counts, found = np.random.default_rng(0), np.arange(1, 13), []
    train = np.flatnonzero(setting.split[0] == 0)
    for i in range(setting.clusters):
        known = train[setting.allowed[i, train]]
        for n in counts:
            for _ in range(24):
                seconds = setting.T_true[i, rng.choice(known, n)]
                jobs = Jobs.simple(np.zeros(n), rng.choice(SIZES, n, p=PARTS), seconds)
                end = simulate(jobs, CLUSTER, Policy.build(REFERENCE)).finished.max()
                found.append((n, end / seconds.sum(), i))
    return SpeedUp.fit(*np.array(found).T)


def measured(plans: Plans) -> Iterator[dict[str, Any]]:
    """A row per seed, load, policy and plan of one setting."""
    setting, allowed = plans.setting, plans.setting.allowed
    changed = plans.changed()
    with progress(f"{setting.name}: simulate", plans.shape[0]) as advance:
        for s in range(plans.shape[0]):
            for load in LOADS:
                come = Arrivals(
                    plans.reference.rounds[s], setting.T_true, setting.A_true, plans.usual[TRUTH][s], load, s
                )
                for policy in POLICIES:
                    ways = {("round", label): own[s] for label, own in plans.usual.items()}
                    if load == MIDDLE or policy == REFERENCE:
                        for label in (BASE, "mfcp_x", TRUTH):
                            T, A = (values[s] for values in plans.told[label])
                            ways["queue", label] = come.dispatch(T, A, policy, allowed)
                    if load == MIDDLE:
                        ways |= {(name, label): p[s] for name, own in changed.items() for label, p in own.items()}
                    for (way, label), plan in ways.items():
                        found = come.run(plan, plans.told[label][0][s], policy)
                        yield {"setting": setting.name, "seed": s, "load": load, "policy": policy, "method": label,
                               "plan": way, "excess": float(plans.excess[label][s]), **found}  # fmt: skip
            advance()


def main() -> None:
    """Measure one log."""
    from mfcp.study.reference import solved_setting

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a log")
    parser.add_argument("--name", required=True, help="what it is called on the page")
    options = parser.parse_args()
    import_policies()
    study, settings = study_of(options.data)
    price = settings.section("evaluate").shortfall_price
    NUMBERS.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name in study.settings:
        setting = solved_setting(study, name, settings.section("matching"), price=price)
        rows += measured(Plans(setting, fitted(setting, settings), price))
        with replacing(NUMBERS / f"{options.name}.parquet") as path:  # as far as it is
            pd.DataFrame(rows).assign(log=options.name).to_parquet(path, index=False)
    print(NUMBERS / f"{options.name}.parquet")


if __name__ == "__main__":
    sys.exit(guarded(main))
