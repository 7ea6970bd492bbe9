"""`python benchmarks/operator_study.py --data DIR`: does learning for the matching help once clusters queue? A page.

DIR holds a log, by default `data/raw`, that of the emulated platform. Methods learn from it as in every benchmark. Then
rounds of test tasks arrive one after another, a method's plan sends each task to a cluster, and the cluster's own
scheduler runs it there, with true times and failures. `--page` writes the page again from the kept numbers.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Floats, Ints
from mfcp.files import read_json, write_json
from mfcp.progress import progress
from mfcp.simulator.beliefs import Predicted
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.simulation import import_policies, simulate

ROOT = Path(__file__).parents[1]
NUMBERS, PAGE = ROOT / "docs/simulator/operator.json", ROOT / "docs/operator.md"
METHODS, BASE, TRUTH = ("tam", "tsm_log", "mfcp_ad", "mfcp_x"), "tsm_log", "true times"
ENGINES = ("own", "greedy")
POLICIES = ("fifo", "las", "srsf", "themis", "qore")
LOADS = (0.5, 0.8, 1.1)
SETTINGS, SEEDS, ROUNDS, POOL = ("A", "B", "C"), 20, 40, 16
SIZES, PARTS = (1, 2, 4, 8), (0.5, 0.25, 0.15, 0.1)
RETRIES = 3
AXES = ("setting", "seed", "load", "method", "policy")


class Arrivals:
    """The tasks of one setting and seed: when they come, how wide they are, when they are due.

    Args:
        rounds: (R, N) tasks.
        T, A: (M, n) true seconds and success probabilities.
        best: (R, N) plan by the truth, which sets the load.
        load: accelerator-seconds of that plan over those of the clusters until the last round.
        seed: of widths and deadlines; the same for every method.
    """

    def __init__(self, rounds: Ints, T: Floats, A: Floats, best: Ints, load: float, seed: int) -> None:
        rng = np.random.default_rng([seed, 26])
        self.task, self.T, self.A = rounds.ravel(), T, A
        self.gpus = rng.choice(SIZES, len(self.task), p=PARTS)
        service = (T[best.ravel(), self.task] * self.gpus).sum()
        gap = service / (len(rounds) * len(T) * POOL * load)
        self.submit = np.repeat(np.arange(len(rounds)) * gap, rounds.shape[1])
        fastest = np.nanmin(T[:, self.task], axis=0)
        self.deadline = self.submit + fastest * rng.uniform(0.66, 2.44, len(fastest)) + 750.0  # Qore-DL's generator

    def run(self, plan: Ints, predicted: Floats, policy: str, seed: int) -> dict[str, float]:
        """All clusters under a policy; (R, N) plan, (M, n) seconds that the schedulers are told."""
        where = plan.ravel()
        jct, met, lost = np.full(len(where), np.nan), np.zeros(len(where), bool), 0.0
        for i in range(len(self.T)):
            rows = np.flatnonzero(where == i)
            if len(rows) == 0:
                continue
            own = self.task[rows]
            jobs = Jobs.simple(
                self.submit[rows], self.gpus[rows], self.T[i, own], deadline=self.deadline[rows],
                success=np.clip(self.A[i, own], 0.01, 1.0),
            )  # fmt: skip
            told = Predicted(seconds=tuple(np.maximum(predicted[i, own], 1e-3).tolist()))
            outcome = simulate(
                jobs, Cluster.parse(str(POOL)), Policy.build(policy), belief=told, retries=RETRIES, seed=seed
            )
            jct[rows], met[rows] = outcome.jct, outcome.finished <= jobs.deadline
            lost += float(outcome.lost.sum())
        service = self.T[where, self.task] * self.gpus
        return {
            "jct": float(np.nanmean(jct)), "p95": float(np.nanpercentile(jct, 95)), "met": float(met.mean()),
            "met_service": float(np.average(met, weights=service)), "lost": lost / 3600.0,
        }  # fmt: skip


def greedy(T: Floats, allowed: np.ndarray) -> Ints:
    """(R, N) plans: tasks by their shortest time, longest first, each where the predicted load ends first."""
    R, _, N = T.shape
    order = np.argsort(-np.where(allowed, T, np.inf).min(axis=1), axis=1, kind="stable")
    load, plan, rows = np.zeros(T.shape[:2]), np.zeros((R, N), np.int64), np.arange(R)
    for k in range(N):
        task = order[:, k]
        ends = np.where(allowed[rows, :, task], load + T[rows, :, task], np.inf)
        place = ends.argmin(axis=1)
        plan[rows, task] = place
        load[rows, place] = ends[rows, place]
    return plan


def measure(data: Path) -> dict[str, Any]:
    """Fit the methods, run all combinations, and fit the speed-up of each policy."""
    from mfcp.data.log.validation import validate
    from mfcp.data.sources.folder import Folder
    from mfcp.evaluation.metrics import Reference, round_metrics
    from mfcp.methods.pretrain import epochs, pretrain
    from mfcp.settings import Settings
    from mfcp.study.featurize import featurize
    from mfcp.study.reference import solved_setting
    from mfcp.study.setting import gather
    from mfcp.study.study_pool import build_pool

    import_policies()
    settings = Settings.load(ROOT / "params.yaml")
    content = dict(settings.content)
    content["featurize"] = {**content["featurize"], "seeds": list(range(SEEDS)), "settings": len(SETTINGS)}
    settings = Settings(content, settings.where)
    price = settings.section("evaluate").shortfall_price
    tables = validate(Folder(path=str(data)).read(0), max_bad_share=0.5).tables
    with progress("featurize"):
        study = featurize(tables, build_pool(tables, settings.section("pool"), seed=0),
                          settings.section("featurize"))  # fmt: skip
    rows, speeds = [], []
    for name in SETTINGS:
        setting = solved_setting(study, name, settings.section("matching"), price=price)
        plan = settings.section("pretrain")
        with progress(f"{name}: pretrain", epochs(plan)) as advance:
            base = pretrain(setting, plan, advance=advance)
        reference = Reference.of(setting, ROUNDS)
        S, N = len(setting.seeds), setting.matching.tasks
        shape = (S, ROUNDS, N)
        own = {TRUTH: reference.optimal.reshape(shape)}
        told = {TRUTH: np.broadcast_to(setting.T_true, (S, *setting.T_true.shape))}
        for label in METHODS:
            method = settings.methods[label]
            with progress(f"{name}: {label}", method.steps(settings.section("finetune"))) as advance:
                model = method.fit(setting, base, settings.section("finetune"), advance=advance)
            own[label] = model.plan(setting, reference.rounds).reshape(shape)
            told[label] = model.predict(setting)[0]
        allowed = gather(setting.allowed, reference.rounds)
        excess = {
            label: round_metrics(plans.reshape(-1, N), reference, price=price)["penalised_excess"].reshape(S, -1)
            for label, plans in own.items()
        }
        with progress(f"{name}: simulate", S) as advance:
            for s in range(S):
                rounds = reference.rounds[s]
                for load in LOADS:
                    come = Arrivals(rounds, setting.T_true, setting.A_true, own[TRUTH][s], load, s)
                    for label in own:
                        sent = gather(told[label][s], reference.rounds[s : s + 1])
                        plans = {"own": own[label][s], "greedy": greedy(sent, allowed.reshape(S, ROUNDS, -1, N)[s])}
                        for engine, sends in plans.items():
                            for policy in POLICIES:
                                found = come.run(sends, told[label][s], policy, s)
                                rows.append({
                                    "setting": name, "seed": s, "method": label, "engine": engine, "policy": policy,
                                    "load": load, "excess": float(excess[label][s].mean()), **found,
                                })  # fmt: skip
                advance()
        speeds += _speed_ups(setting, reference, own, told)
    about = {"settings": list(SETTINGS), "seeds": SEEDS, "rounds": ROUNDS, "pool": POOL}
    return {**about, **packed(rows), "speed_ups": speeds}


def packed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs in the order of the product of their `axes`, four digits each, a string of them for each number.

    Of greedy plans only completion times are kept.
    """
    frame = pd.DataFrame(rows)
    axes = {name: list(dict.fromkeys(frame[name])) for name in AXES}
    found = {}
    for engine, part in frame.groupby("engine"):
        table = part.set_index(list(AXES)).reindex(pd.MultiIndex.from_product(list(axes.values())))
        kept = ["jct"] if engine == "greedy" else [name for name in table if name != "engine"]
        found[engine] = {name: " ".join(f"{value:.4g}" for value in table[name]) for name in kept}
    return {"axes": axes, "runs": found}


def unpacked(numbers: dict[str, Any]) -> pd.DataFrame:
    """One row per run."""
    index = pd.MultiIndex.from_product(list(numbers["axes"].values()), names=list(numbers["axes"]))
    parts = []
    for engine, columns in numbers["runs"].items():
        values = {name: np.array(text.split(), float) for name, text in columns.items()}
        parts.append(pd.DataFrame({"engine": engine, **values}, index=index).reset_index())
    return pd.concat(parts, ignore_index=True)


def _speed_ups(setting: Any, reference: Any, own: dict[str, Ints], told: dict[str, Floats]) -> list[dict[str, Any]]:
    """Fit Eq. (16) to one cluster's time for n tasks at once, plan by it, and run again at the middle load."""
    from mfcp.evaluation.metrics import Reference
    from mfcp.matching.speedup import SpeedUp

    S, N = len(setting.seeds), setting.matching.tasks
    result = []
    for policy in POLICIES:
        floor, decay, error = fit_speed_up(setting, policy)
        changed = replace(setting, speedup=SpeedUp(floor, decay))
        again = Reference.of(changed, ROUNDS)
        for s in range(S):
            come = Arrivals(reference.rounds[s], setting.T_true, setting.A_true, own[TRUTH][s], LOADS[1], s)
            plans = {"sequential": own[TRUTH][s], "fitted": again.optimal.reshape(S, ROUNDS, N)[s]}
            found = {key: come.run(plan, told[TRUTH][s], policy, s)["jct"] for key, plan in plans.items()}
            result.append({"setting": setting.name, "seed": s, "policy": policy, "floor": round(floor, 4),
                           "decay": round(decay, 4), "error": round(error, 4),
                           **{key: round(value, 3) for key, value in found.items()}})  # fmt: skip
    return result


def fit_speed_up(setting: Any, policy: str) -> tuple[float, float, float]:
    """Floor and decay of Eq. (16), and the rms error of the fit.

    The factor of n tasks is the time until an empty cluster is through with them over the sum of their times, both
    with the widths that tasks have here; it is the mean over batches of training tasks.
    """
    from scipy.optimize import curve_fit

    rng, counts = np.random.default_rng(0), np.arange(1, 13)
    train = np.flatnonzero(setting.split[0] == 0)
    factor = np.zeros(len(counts))
    for k, n in enumerate(counts):
        found = []
        for _ in range(24):
            i = rng.integers(setting.clusters)
            tasks = rng.choice(train[setting.allowed[i, train]], n)
            gpus = rng.choice(SIZES, n, p=PARTS)
            seconds = setting.T_true[i, tasks]
            jobs = Jobs.simple(np.zeros(n), gpus, seconds, deadline=2 * seconds + 750)
            outcome = simulate(jobs, Cluster.parse(str(POOL)), Policy.build(policy))
            found.append(outcome.finished.max() / seconds.sum())
        factor[k] = np.mean(found)
    (floor, decay), _ = curve_fit(
        lambda n, f, d: f + (1 - f) * np.exp(-(n - 1) / d),
        counts,
        factor,
        p0=(0.3, 2.0),
        bounds=([0.01, 0.05], [1, 50]),
    )
    fitted = floor + (1 - floor) * np.exp(-(counts - 1) / decay)
    return float(floor), float(decay), float(np.sqrt(np.mean((fitted - factor) ** 2)))


def bounds(values: Floats) -> tuple[float, float, float]:
    """Mean of (settings, seeds) values and a 95 % interval, by a bootstrap over both."""
    rng, (K, S) = np.random.default_rng(0), values.shape
    draws = [values[rng.integers(K, size=K)][:, rng.integers(S, size=S)].mean() for _ in range(4000)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def interval(values: Floats, form: str = "{:.2f}", log: bool = True) -> str:
    """Mean, geometric where `log`, with its interval."""
    found = bounds(np.log(values) if log else values)
    mean, low, high = (form.format(np.exp(each) if log else each) for each in found)
    return f"{mean} [{low}, {high}]"


def verdict(ratio: Floats, below: str, above: str) -> str:
    """What a ratio says of which the interval leaves out 1."""
    _, low, high = bounds(np.log(ratio))
    return below if high < 0 else above if low > 0 else "no sure difference"


def grid(frame: pd.DataFrame, column: str) -> Floats:
    """(settings, seeds) means."""
    return frame.pivot_table(index="setting", columns="seed", values=column).to_numpy()


def page(numbers: dict[str, Any]) -> str:
    """The page that the numbers give."""
    frame, speed = unpacked(numbers), pd.DataFrame(numbers["speed_ups"])
    own = frame[frame["engine"] == "own"]
    parts = [_opening(numbers), _findings(own, speed), _methods(own), _schedulers(frame), _correlations(own)]
    parts += [_speed_up_table(speed), "Run it again: `python benchmarks/operator_study.py --data data/raw`."]
    return "\n\n".join(parts) + "\n"


def _opening(numbers: dict[str, Any]) -> str:
    text = f"""
        A round's regret counts the tasks of one round on empty clusters. In operation, rounds follow each other, tasks
        wait, and every cluster has a scheduler of its own. This page runs the plans of four methods through such
        clusters and asks what is left of the differences.

        The numbers are from settings {", ".join(numbers["settings"])} of the default platform, {numbers["seeds"]} seeds
        each. A seed has {numbers["rounds"]} rounds of test tasks. Every cluster has {numbers["pool"]} accelerators, and
        a task asks for 1, 2, 4 or 8 of them, drawn with weights 0.5, 0.25, 0.15 and 0.1. The load is the work of the
        best plan over what the clusters can do. Runs fail with the platform's true probabilities and start again, up
        to {RETRIES} times. Deadlines are those of Qore-DL's generator: 0.66 to 2.44 times the shortest true time, plus
        750 s. Schedulers that need durations are told the method's predictions. `themis` is Gavel's finish-time
        fairness on one type. "True times" are the plans of least makespan that reach gamma, by the truth: the best of a
        round, which need not be the best of a queue. Brackets are 95 % intervals by a bootstrap over settings and
        seeds, paired between methods.
    """
    paragraphs = [" ".join(each.split()) for each in text.split("\n\n")]
    title = "# Does learning for the matching help once clusters queue?"
    return "\n\n".join([title, *(fill(each, 118) for each in paragraphs)])


def _findings(own: pd.DataFrame, speed: pd.DataFrame) -> str:
    """Sentences, each with its verdict."""
    lines, middle = [], own[own["load"] == LOADS[1]]
    for label, what in (("mfcp_ad", "Training for the decision"), ("mfcp_x", "Better predictors and the rule"),
                        (TRUTH, "True times")):  # fmt: skip
        ratio = _ratio(middle, label, "jct")
        lines.append(f"{what} ({label}): mean completion time is {interval(ratio)} of that of {BASE} at load 0.8,"
                     f" {verdict(ratio, 'shorter', 'longer')}.")  # fmt: skip
    high = own[(own["load"] == LOADS[2]) & (own["method"] == BASE)]
    ratio = _of_policy(high, "srsf") / _of_policy(high, "fifo")
    lines.append(f"The cluster's scheduler: with the plans of {BASE} at load 1.1, `srsf` needs {interval(ratio)} of the"
                 f" completion time of `fifo`, {verdict(ratio, 'shorter', 'longer')}.")  # fmt: skip
    found = [correlation(own[(own["policy"] == p) & (own["load"] == load)])[0] for p in POLICIES for load in LOADS]
    lines.append("The regret of a round and the completion time in operation correlate"
                 f" with {min(found):.2f} to {max(found):.2f}, by scheduler and load.")  # fmt: skip
    gains = {p: _of_policy(speed, p, "fitted") / _of_policy(speed, p, "sequential") for p in POLICIES}
    told = [verdict(ratio, "shorter", "longer") for ratio in gains.values()]
    lines.append("Plans by a factor for tasks side by side, fitted to the simulated cluster, have completion times that"
                 f" are surely shorter under {told.count('shorter')} of {len(told)} schedulers and surely longer under"
                 f" {told.count('longer')}.")  # fmt: skip
    return "\n".join(fill(f"- {line}", 118, subsequent_indent="  ") for line in lines)


def _methods(own: pd.DataFrame) -> str:
    others = [label for label in (*METHODS, TRUTH) if label != BASE]
    lines = ["## Methods", ""]
    for column, title in (("jct", "Mean completion time"), ("p95", "95th percentile of completion times")):
        lines += [f"{title}, ratio to {BASE}, mean over {len(POLICIES)} schedulers:", "", *_header("method")]
        for label in others:
            cells = [interval(_ratio(own[own["load"] == load], label, column)) for load in LOADS]
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [
        f"Difference to {BASE} at load 0.8: points of deadlines met, by count and by accelerator-time, and",
        "accelerator-hours that failures waste:", "",
        "| method | by count | by accelerator-time | wasted |", "|---|---|---|---|",
    ]  # fmt: skip
    middle = own[own["load"] == LOADS[1]]
    for label in others:
        cells = [
            interval(scale * _difference(middle, label, column), "{:+.1f}", log=False)
            for column, scale in (("met", 100), ("met_service", 100), ("lost", 1))
        ]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _schedulers(frame: pd.DataFrame) -> str:
    lines = [
        "## Schedulers and engines", "",
        "Mean completion time over that under `fifo`, with the plans of mfcp_x; and greedy plans by the same",
        "predictions over its own. Greedy plans know nothing of reliability:", "",
        *_header("scheduler", "greedy over own, load 0.8"),
    ]  # fmt: skip
    mine = frame[frame["method"] == "mfcp_x"]
    for policy in POLICIES:
        cells = []
        for load in LOADS:
            part = mine[(mine["load"] == load) & (mine["engine"] == "own")]
            cells.append("1" if policy == "fifo" else interval(_of_policy(part, policy) / _of_policy(part, "fifo")))
        part = mine[(mine["load"] == LOADS[1]) & (mine["policy"] == policy)]
        greedy_plan, own_plan = (grid(part[part["engine"] == engine], "jct") for engine in ("greedy", "own"))
        lines.append(f"| `{policy}` | " + " | ".join([*cells, interval(greedy_plan / own_plan)]) + " |")
    return "\n".join(lines)


def _correlations(own: pd.DataFrame) -> str:
    lines = [
        "## Does the regret of a round tell?", "",
        "Spearman correlation, over settings, seeds and methods, between a method's penalised excess and its mean",
        f"completion time, both as ratios to {BASE}:", "", *_header("scheduler"),
    ]  # fmt: skip
    for policy in POLICIES:
        found = [correlation(own[(own["policy"] == policy) & (own["load"] == load)]) for load in LOADS]
        lines.append(
            f"| `{policy}` | " + " | ".join(f"{r:.2f} [{low:.2f}, {high:.2f}]" for r, low, high in found) + " |"
        )
    return "\n".join(lines)


def _speed_up_table(speed: pd.DataFrame) -> str:
    lines = [
        "## The cluster's scheduler in the matching", "",
        "Eq. (16) has a factor for n tasks on a cluster. Here it is fitted to the time in which an empty simulated",
        "cluster is through with n tasks, and the best plan by the truth is made anew with it:", "",
        "| scheduler | floor | decay | error of the fit (rms) | completion time, fitted over sequential, load 0.8 |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for policy in POLICIES:
        part = speed[speed["policy"] == policy]
        low, decay, error = (part[c].mean() for c in ("floor", "decay", "error"))
        ratio = interval(grid(part, "fitted") / grid(part, "sequential"))
        lines.append(f"| `{policy}` | {low:.2f} | {decay:.1f} | {error:.3f} | {ratio} |")
    return "\n".join(lines)


def _header(first: str, *more: str) -> list[str]:
    names = [first, *(f"load {load:g}" for load in LOADS), *more]
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def _of_policy(frame: pd.DataFrame, policy: str, column: str = "jct") -> Floats:
    return grid(frame[frame["policy"] == policy], column)


def _by_method(frame: pd.DataFrame, label: str, column: str) -> Floats:
    return grid(frame[frame["method"] == label], column)


def _ratio(frame: pd.DataFrame, label: str, column: str) -> Floats:
    return _by_method(frame, label, column) / _by_method(frame, BASE, column)


def _difference(frame: pd.DataFrame, label: str, column: str) -> Floats:
    return _by_method(frame, label, column) - _by_method(frame, BASE, column)


def correlation(frame: pd.DataFrame) -> tuple[float, float, float]:
    """Spearman's, with an interval by a bootstrap over settings and seeds."""
    from scipy.stats import spearmanr

    others = [label for label in METHODS if label != BASE]
    both = np.stack([[np.log(_ratio(frame, label, c)) for label in others] for c in ("excess", "jct")])
    rng, (K, S) = np.random.default_rng(0), both.shape[2:]
    draws = []
    for _ in range(400):
        part = both[:, :, rng.integers(K, size=K)][..., rng.integers(S, size=S)]
        draws.append(spearmanr(part[0].ravel(), part[1].ravel()).statistic)
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return float(spearmanr(both[0].ravel(), both[1].ravel()).statistic), float(low), float(high)


def main() -> None:
    """Measure, and write numbers and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, help="a log of the emulated platform")
    source.add_argument("--page", action="store_true", help="only the page, from the kept numbers")
    options = parser.parse_args()
    if options.data:
        write_json(NUMBERS, measure(options.data))
    PAGE.write_text(page(read_json(NUMBERS)), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
