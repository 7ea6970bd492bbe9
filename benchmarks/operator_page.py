"""`python -m benchmarks.operator_page`: docs/operator.md from the runs that `operator_study.py` has measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd

from benchmarks.operator_study import (
    BASE,
    GAMMAS,
    LOADS,
    METHODS,
    MIDDLE,
    NUMBERS,
    POLICIES,
    POOL,
    REFERENCE,
    ROOT,
    ROUNDS,
    TRUTH,
)
from mfcp.arrays import Floats

PAGE = ROOT / "docs/operator.md"
OTHERS = (*(label for label in METHODS if label != BASE), TRUTH)
SOURCES = (BASE, "mfcp_x", TRUTH)


class Runs:
    """The runs of one log.

    Args:
        frame: a row per run.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.log = str(frame["log"].iloc[0])
        self.frame = frame
        self.settings, self.seeds = frame["setting"].nunique(), frame["seed"].nunique()

    def of(self, method: str, plan: str = "round", *, load: float = MIDDLE, policy: str = REFERENCE) -> pd.DataFrame:
        """Runs by setting and seed."""
        own = self.frame.query("method == @method and plan == @plan and load == @load and policy == @policy")
        return own.set_index(["setting", "seed"]).sort_index()

    def ratio(self, one: pd.DataFrame, other: pd.DataFrame, column: str = "jct") -> Floats:
        """(settings,) log of the ratio, the mean over seeds."""
        return self.by_setting(np.log(one[column] / other[column]))

    def by_setting(self, values: pd.Series) -> Floats:
        """(settings,) means over seeds."""
        assert len(values) == self.settings * self.seeds, f"{self.log}: {len(values)} runs"
        return values.groupby(level="setting").mean().to_numpy()


def interval(values: Floats) -> tuple[float, float, float]:
    """Mean of (settings,) values and its 95 % interval, by a bootstrap over settings."""
    rng = np.random.default_rng(0)
    draws = values[rng.integers(len(values), size=(4000, len(values)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def told(logs: Floats) -> str:
    """A ratio with its interval, from logs."""
    mean, low, high = np.exp(interval(logs))
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def verdict(logs: Floats) -> str:
    """What a ratio says where its interval leaves out 1."""
    _, low, high = interval(logs)
    return "shorter" if high < 0 else "longer" if low > 0 else "no significant difference"


def page(runs: Sequence[Runs]) -> str:
    """The page."""
    parts = [_opening(runs), _findings(runs)]
    for title, text, make in (
        ("Methods", f"Mean completion time under `{REFERENCE}`, ratio to {BASE}.", _methods),
        ("Schedulers of the clusters", f"The same at load {MIDDLE:g}, under each scheduler; and each scheduler over "
         f"`{REFERENCE}`, with the plans of {BASE} and of mfcp_x.", _schedulers),
        ("Plans that see the queues", "Each task goes where a simulation with the same predictions has the sum of "
         "completion times grow least; it knows how wide tasks are, which a round's plan does not. Ratio to the "
         f"round's plan from the same predictions, under `{REFERENCE}`; and "
         "the round's plans over the plan that sees the queues and the true times, the best that we know.", _queues),
        ("The reliability that is asked for", f"Plans for another gamma over plans for the usual one, under "
         f"`{REFERENCE}` at load {MIDDLE:g}: mean completion time, and accelerator-hours that failures waste. "
         "\"none\" asks for nothing, \"high\" for the 95th percentile of what time-optimal plans reach, the usual "
         "gamma for their median.", _gammas),
        ("Tasks side by side, Eq. (16)", f"Zeta of each cluster, fitted to the time in which it is through with 1 to "
         f"12 tasks at once under `{REFERENCE}`; plans that use it over plans that do not, at load {MIDDLE:g}.",
         _zetas),
        ("Does the regret of a round tell?", "Spearman correlation over settings and seeds between a method's "
         f"penalised excess and its mean completion time, both as ratios to {BASE}; under `{REFERENCE}` at load "
         f"{MIDDLE:g}. Within a method, it says whether a seed with less excess has shorter completion times.",
         _correlations),
    ):  # fmt: skip
        parts += [
            f"## {title}\n\n{fill(text, 118, break_on_hyphens=False)}",
            *(f"{own.log}:\n\n{make(own)}" for own in runs),
        ]
    parts.append("Run it again: `python benchmarks/operator_study.py --data data/raw --name default`, the same for a "
                 "folder\nof timm's tables, then `python -m benchmarks.operator_page`. The runs behind this page, "
                 "650 kB, are not kept in git.")  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _opening(runs: Sequence[Runs]) -> str:
    logs = " and ".join(f"{own.settings} settings of {own.log} ({own.seeds} seeds each)" for own in runs)
    text = f"""
        A round's regret counts the tasks of one round on empty clusters. In operation rounds follow each other, tasks
        wait, and every cluster has a scheduler of its own. This page sends the plans of four methods through such
        clusters and asks what is left of the differences.

        There are {logs}. "default" is the emulated platform; timm is measured times, with failures that the study
        invents as in every benchmark on logs that tell of none. A seed has {ROUNDS} rounds of test tasks. Every
        cluster has {POOL} accelerators; a task asks for 1, 2, 4 or 8 of them, drawn with weights 0.5,
        0.25, 0.15 and 0.1. The load is the work of the plans of least makespan over what the clusters can do. An
        attempt fails with the true probability, at a uniform point, and the task starts again until it succeeds: no
        task leaves the means. Luck is drawn by task and attempt, so it is the same under every plan. Schedulers that
        need durations are told the method's predictions. The reference is `easy`, since a queue that blocks at its head
        is easily beaten. "True times" are the plans of least makespan by the truth that reach gamma: the best of a
        round, which need not be the best of a queue. Brackets are 95 % intervals by a bootstrap over settings.
    """
    title = "# Does learning for the matching help once clusters queue?"
    return "\n\n".join(
        [title, *(fill(" ".join(each.split()), 118, break_on_hyphens=False) for each in text.split("\n\n"))]
    )


def _findings(runs: Sequence[Runs]) -> str:
    lines = []
    for what, one, other in (
        ("Training for the decision: mfcp_ad over " + BASE, ("mfcp_ad", "round"), (BASE, "round")),
        ("Better predictors and the rule: mfcp_x over " + BASE, ("mfcp_x", "round"), (BASE, "round")),
        (f"The best plans of a round: true times over {BASE}", (TRUTH, "round"), (BASE, "round")),
        (f"Seeing the queues, with the predictions of {BASE}: over its rounds' plans", (BASE, "queue"),
         (BASE, "round")),
        ("Seeing the queues, with the predictions of mfcp_x: over its rounds' plans", ("mfcp_x", "queue"),
         ("mfcp_x", "round")),
        (f"Better predictors for one who sees the queues: mfcp_x over {BASE}", ("mfcp_x", "queue"), (BASE, "queue")),
        ("What true times would still bring to one who sees the queues: over mfcp_x", (TRUTH, "queue"),
         ("mfcp_x", "queue")),
        (f"Zeta of each cluster in the plans of {BASE}: over those without", (BASE, "zeta"), (BASE, "round")),
    ):  # fmt: skip
        found = [(own.log, own.ratio(own.of(*one), own.of(*other))) for own in runs]
        told_of = "; ".join(f"{log} {told(logs)}, {verdict(logs)}" for log, logs in found)
        lines.append(fill(f"- {what}: {told_of}.", 118, subsequent_indent="  "))
    return f"Mean completion time under `{REFERENCE}` at load {MIDDLE:g}:\n\n" + "\n".join(lines)


def _table(first: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = ["| " + " | ".join([first, *columns]) + " |", "|" + "---|" * (len(columns) + 1)]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows)])


def _methods(runs: Runs) -> str:
    rows = [
        [label, *(told(runs.ratio(runs.of(label, load=load), runs.of(BASE, load=load))) for load in LOADS)]
        for label in OTHERS
    ]
    return _table("method", [f"load {load:g}" for load in LOADS], rows)


def _schedulers(runs: Runs) -> str:
    rows = [
        [f"{label} over {BASE}", *(told(runs.ratio(runs.of(label, policy=p), runs.of(BASE, policy=p)))
                                   for p in POLICIES)]
        for label in OTHERS
    ] + [
        [f"scheduler over `{REFERENCE}`, {label}", *("1" if p == REFERENCE else
         told(runs.ratio(runs.of(label, policy=p), runs.of(label))) for p in POLICIES)]
        for label in (BASE, "mfcp_x")
    ]  # fmt: skip
    return _table("", [f"`{p}`" for p in POLICIES], rows)


def _queues(runs: Runs) -> str:
    rows = []
    for label in SOURCES:
        own = [(runs.of(label, "queue", load=load), runs.of(label, load=load)) for load in LOADS]
        rows.append([f"{label}: queues over round", *(told(runs.ratio(*pair)) for pair in own)])
    for label in SOURCES:
        own = [(runs.of(label, load=load), runs.of(TRUTH, "queue", load=load)) for load in LOADS]
        rows.append([f"{label}: round over the best known", *(told(runs.ratio(*pair)) for pair in own)])
    return _table("", [f"load {load:g}" for load in LOADS], rows)


def _gammas(runs: Runs) -> str:
    rows = []
    for name in GAMMAS:
        for label in SOURCES:
            pair = runs.of(label, name), runs.of(label)
            mean, low, high = interval(runs.by_setting(pair[0]["lost"] - pair[1]["lost"]))
            rows.append([f"{name}, {label}", told(runs.ratio(*pair)), f"{mean:+.2g} [{low:+.2g}, {high:+.2g}]"])
    return _table("", ["completion time", "hours wasted"], rows)


def _zetas(runs: Runs) -> str:
    rows = [
        [label, *(told(runs.ratio(runs.of(label, "zeta", policy=p), runs.of(label, policy=p))) for p in POLICIES)]
        for label in SOURCES
    ]
    return _table("plans by", [f"`{p}`" for p in POLICIES], rows)


def _correlations(runs: Runs) -> str:
    base, rows, every = runs.of(BASE), [], []
    for label in OTHERS[:-1]:
        own = runs.of(label)
        both = np.stack([np.log((own[c] + 1e-9) / (base[c] + 1e-9)) for c in ("excess", "jct")])
        every.append(both.reshape(2, runs.settings, runs.seeds))
        rows.append([f"within {label}", _correlated(every[-1][:, None])])
    rows.append(["all of them together", _correlated(np.stack(every, axis=1))])
    return _table("", ["correlation"], rows)


def _correlated(both: Floats) -> str:
    """Spearman's of (2, methods, settings, seeds) numbers, with an interval by a bootstrap over settings."""
    from scipy.stats import spearmanr

    rng, K = np.random.default_rng(0), both.shape[2]
    draws = [
        spearmanr(*both[:, :, rng.integers(K, size=K)].reshape(2, -1)).statistic for _ in range(400)
    ]  # fmt: skip
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return f"{spearmanr(*both.reshape(2, -1)).statistic:.2f} [{low:.2f}, {high:.2f}]"


def read(folder: Path = NUMBERS) -> list[Runs]:
    """The runs of every log in a folder."""
    return [Runs(pd.read_parquet(path)) for path in sorted(folder.glob("*.parquet"))]


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(read()), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
