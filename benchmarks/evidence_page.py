"""Numbers and page of `benchmarks/evidence.py`, from the rounds that it kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.border.json_text import read_json
from mfcp.errors import DataError
from mfcp.evaluation.compare import Resampled, resample
from mfcp.files import replacing, write_json

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS, PAGE, FIGURE = DOCS / "evidence/evidence.json", DOCS / "evidence.md", DOCS / "evidence/budget.png"
LOGS = {"default": "default (emulated)", "timm": "timm", "gavel": "gavel"}
BASE, METRIC, BOOTSTRAP = "mfcp_x", "penalised_excess", 2000
COMPARED = ("value 3", "variance 5")
LAST_CELLS = (
    ("worth 0.01", "worth 0.005"),
    ("worth 0.005", "worth 0.002"),
    ("others, worth 0.01", "others, worth 0.002"),
)
PARTS = ((0, 25), (25, 50), (50, 100), (100, 200))
SUMS = ("pairs", "inside", "moved_pairs", "moved_inside", "own", "own_freedom")
GOALS: tuple[tuple[str, str, str, dict[str, float]], ...] = (
    ("finished runs of other tasks", "others", "mean", {"timm": 0.80, "default": 0.90, "gavel": 1.03}),
    ("the task itself may recur", "own", "mean", {"timm": 0.65, "gavel": 0.40, "default": 0.70}),
    (
        "runs of others, cells worth 0.002",
        "others, worth 0.002",
        "mean",
        {"timm": 0.40, "gavel": 0.50, "default": 0.75},
    ),
    ("… cells a round", "others, worth 0.002", "cells", dict.fromkeys(LOGS, 4.5)),
)

SCORED = {
    "finished": "others", "finished_recurring": "own", "cells_worth": "worth 0.002",
    "finished_and_cells": "others, worth 0.002", "three_by_value": "value 3", "five_by_variance": "variance 5",
}  # fmt: skip
"""By the names that goals have for them."""
IN_TABLE = (BASE, "others", "own", "value 3", "others, worth 0.002")  # of errors and intervals
ALIKE = 0.01  # of excess: which of two cells is measured that are worth the same is up to rounding

Numbers = dict[str, Any]


def summarise(rounds: pd.DataFrame) -> Numbers:
    """Log → tasks of a round → way → its ratio with interval, cells, coverage and own error."""
    result: Numbers = {}
    for (log, tasks), own in rounds.groupby(["log", "tasks"], sort=False):
        sample = _by_draw(own)
        base = own[own["method"] == BASE]
        table = {}
        for way in sample.methods:
            part = own[own["method"] == way]
            total = part[list(SUMS)].sum()
            table[way] = {
                "excess": float(part[METRIC].mean()),
                **_ratio(sample, way),
                "cells": float(part["cells"].mean()),
                "own": float(np.sqrt(total["own"] / max(total["own_freedom"], 1))),
                "coverage": float(total["inside"] / total["pairs"]),
                "moved": float(total["moved_pairs"] / total["pairs"]),
                "moved_coverage": float(total["moved_inside"] / max(total["moved_pairs"], 1)),
                "parts": _parts(part, base),
            }
        against = sample.ratio(*COMPARED, METRIC) if set(COMPARED) <= set(sample.methods) else None
        counts = {name: int(own[name].nunique()) for name in ("draw", "setting")}
        facts = {"rounds": len(base), "ways": table, "value 3 over variance 5": against and _numbers(against)}
        result.setdefault(str(log), {})[str(tasks)] = counts | facts
    return result


def records_of(numbers: Numbers) -> list[dict[str, Any]]:
    """Rows for programs: log, variant, cells a round, ratio of penalised excess to that of `mfcp_x`, its interval.

    And tasks of a round, and rounds: a log of a few tasks has rounds of one, and its ratios say little.
    """
    found = []
    for log, sizes in numbers.items():
        for tasks, own in sizes.items():
            rows = {variant: own["ways"][way] for variant, way in SCORED.items()}
            rows["three_by_value_over_five"] = own["value 3 over variance 5"] | {"cells": None}
            found += [
                {"log": log, "variant": variant, "cells": row["cells"], "ratio": row["mean"], "low": row["ci_low"],
                 "high": row["ci_high"], "tasks": int(tasks), "rounds": own["rounds"]}
                for variant, row in rows.items()
            ]  # fmt: skip
    return found


def summarise_trained(rounds: pd.DataFrame) -> Numbers:
    """Log → comparison → way → its ratio with interval; and the runs that a tenth of the groups stands for."""
    result: Numbers = {}
    for (log, part), own in rounds.groupby(["log", "part"], sort=False):
        sample = _by_draw(own)
        table = {way: _ratio(sample, way) for way in sample.methods}
        result.setdefault(str(log), {})[str(part)] = {"runs": float(own["runs"].mean()), "ways": table}
    return result


def _by_draw(rounds: pd.DataFrame) -> Resampled:
    """The bootstrap that resamples draws of test families first, then pairs of setting and split, then rounds."""
    pair = rounds["setting"] + rounds["seed"].astype(str)
    number = pair.groupby(rounds["draw"]).transform(lambda each: pd.factorize(each)[0])
    return resample(rounds.assign(setting=rounds["draw"], seed=number), BOOTSTRAP)


def _ratio(sample: Resampled, way: str) -> dict[str, float]:
    return _numbers(sample.ratio(way, BASE, METRIC))


def _numbers(found: Any) -> dict[str, float]:
    return {name: float(found[name]) for name in ("mean", "ci_low", "ci_high")}


def _parts(own: pd.DataFrame, base: pd.DataFrame) -> list[float]:
    """The ratio in each part of the history."""
    found = []
    for low, high in PARTS:
        both = [each[(each["round"] >= low) & (each["round"] < high)][METRIC] for each in (own, base)]
        if len(both[1]):
            found.append(float(both[0].mean() / both[1].mean()))
    return found


def speeds() -> dict[str, float]:
    """Milliseconds, medians of five after one call: conditioning a round on 200 runs; values of all its cells."""
    from mfcp.predictors.residuals import ObservedCells, ResidualProcess, TaskPoints
    from mfcp.rules.base import Belief
    from mfcp.rules.measuring import cell_values

    rng = np.random.default_rng(0)
    third = np.eye(3) * 0.01 + 0.01
    process = ResidualProcess(third, third, third, 0.4)

    def points(n: int) -> TaskPoints:
        return TaskPoints(np.arange(n).astype(str), np.full(n, "f"), rng.normal(size=(n, 40)))

    seen = ObservedCells(points(200), rng.integers(0, 3, 200), rng.normal(0, 0.1, 200), np.full(200, 0.05**2))
    waiting = points(5)

    def values(clusters: int, tasks: int) -> Callable[[], Any]:
        root = rng.normal(0, 0.15, (1, tasks, clusters, clusters))
        shape = (1, clusters, tasks)
        sd = np.full(clusters, 0.2)
        belief = Belief.of(
            rng.lognormal(size=shape), rng.uniform(0.8, 1, shape), log_sd=sd, own_sd=sd, a_sd=0.1 * sd, gamma=0.9
        )
        return lambda: cell_values(belief, root @ root.swapaxes(-1, -2), 0.05**2, price=4.0)

    calls = {
        "conditioning 5 tasks on 200 runs": lambda: process.condition(waiting, seen),
        "values, 5 tasks on 3 clusters": values(3, 5),
        "values, 50 tasks on 10 clusters": values(10, 50),
    }
    return {name: _median_ms(call) for name, call in calls.items()}


def _median_ms(call: Callable[[], Any]) -> float:
    call()
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        call()
        took.append(1000 * (time.perf_counter() - begin))
    return float(np.median(took))


def write_page(out: Path) -> None:
    """Numbers from the rounds in a folder, and from them page and figure."""
    files = sorted(out.glob("*.parquet"))
    rounds, trained = (
        pd.concat([pd.read_parquet(f) for f in files if f.name.startswith("trained-") == own], ignore_index=True)
        for own in (False, True)
    )
    kept = read_json(NUMBERS)["further"]  # has a run of its own
    numbers = {"rounds": summarise(rounds), "further": kept, "trained": summarise_trained(trained), "ms": speeds()}
    write_json(NUMBERS, numbers)
    draw_page()


def write_further(log: str, rounds: pd.DataFrame) -> None:
    """Further draws of a log for one comparison, beside the numbers that are kept; then the page."""
    own = {"draws": int(rounds["draw"].nunique()), "rounds": int((rounds["method"] == BASE).sum())}
    own["ratio"] = _numbers(_by_draw(rounds).ratio(*COMPARED, METRIC))
    write_json(NUMBERS, read_json(NUMBERS) | {"further": {log: own}})
    draw_page()


def write_intervals(found: Numbers) -> None:
    """What intervals hold, in place of the kept shares; then the page.

    Raises:
        DataError: a plan is not as it was, so that the whole page is of other rounds.
    """
    numbers = read_json(NUMBERS)
    for log, sizes in found.items():
        for way, row in sizes["5"]["ways"].items():
            kept = numbers["rounds"][log]["5"]["ways"][way]
            if not np.isclose(row["excess"], kept["excess"], rtol=ALIKE):
                raise DataError(
                    f"{log}, {way}: excess {row['excess']:.6g}, kept {kept['excess']:.6g}; "
                    "plans have changed: run the whole, with --out"
                )
            kept |= {name: row[name] for name in ("coverage", "moved_coverage")}
    write_json(NUMBERS, numbers)
    draw_page()


def draw_page() -> None:
    """Page and figure from the kept numbers."""
    numbers = read_json(NUMBERS)
    _draw_budgets(numbers["rounds"])
    with replacing(PAGE) as path:
        path.write_text(page(numbers), encoding="utf-8")
    print(f"wrote {PAGE} and {FIGURE}")


def _draw_budgets(rounds: Numbers) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    panels = figure.subplots(1, len(LOGS), sharey=True)
    for axes, (log, title) in zip(panels, LOGS.items(), strict=True):
        ways = rounds[log]["5"]["ways"]
        for how, label, style in (("value", "by value", "o-"), ("variance", "by own variance", "s--"),
                                  ("random", "at random", "^:")):  # fmt: skip
            own = [ways[BASE], *(row for way, row in ways.items() if way.startswith(f"{how} "))]
            own.sort(key=lambda row: row["cells"])
            axes.plot([row["cells"] for row in own], [row["mean"] for row in own], style, label=label)
        own = [ways[name] for name in ("others", "others, worth 0.01", "others, worth 0.002")]
        own.sort(key=lambda row: row["cells"])
        axes.plot(
            [row["cells"] for row in own], [row["mean"] for row in own], "D-", label="by value, after others' runs"
        )
        axes.set(title=title, xlabel="cells measured a round", ylim=(0, 1.15))
        axes.axhline(1, color="0.7", linewidth=0.8)
    panels[0].set_ylabel("penalised excess / mfcp_x")
    panels[0].legend(fontsize=7)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    with replacing(FIGURE) as path:
        figure.savefig(path, dpi=150, format="png")


def page(numbers: Numbers) -> str:
    """The page as Markdown."""
    rounds = {log: own["5"]["ways"] for log, own in numbers["rounds"].items()}
    facts = {log: own["5"] for log, own in numbers["rounds"].items()}
    counts = "; ".join(
        f"{LOGS[log]} {own['draw']} draws, {own['setting']} settings, {own['rounds']} rounds"
        for log, own in facts.items()
    )
    every = [name for name in next(iter(rounds.values())) if "|" not in name]
    disturbed = list(dict.fromkeys(name.split(" | ")[1] for name in next(iter(rounds.values())) if " | " in name))
    above = [
        f"{way} on {log} ({row['mean']:.2f})"
        for log, ways in rounds.items()
        for way, row in ways.items()
        if row["mean"] > 1.03
    ]
    against = [f"{LOGS[log]} {_interval(own['value 3 over variance 5'])}" for log, own in facts.items()]
    sizes = {
        (log, tasks): own["ways"] for log, every_size in numbers["rounds"].items() for tasks, own in every_size.items()
    }
    parts = [
        "# What evidence brings\n",
        "Runs that have ended and a few measured steps correct what a release predicts ([how](how-to/evidence.md), "
        "[decision 99](decisions/0099-what-errors-have-in-common.md)). Numbers are ratios of penalised excess to that "
        "of `mfcp_x` on the same rounds, with 95 % intervals that resample draws of test families, then settings with "
        "splits, then rounds. Rounds come one after another: what one runs or measures, the next one knows. What is "
        "measured is off by 5 %. `python benchmarks/evidence.py --data DIR --out OUT` makes the rounds, "
        "`evidence/evidence.json` keeps what is shown.\n",
        f"Test families, settings and splits are beyond those of [the study](results.md): {counts}. An earlier draw "
        "of default and gavel, with the first two settings, was looked at before what relatives share was cut down to "
        "what it proves to be worth; it is not among these.\n",
        "## Goals\n",
        _table(
            ["", *LOGS.values()],
            ([text, *(_goal(rounds, log, way, key, most) for log in LOGS)] for text, way, key, most in GOALS),
        ),
        f"Three cells by value over five by own variance: {', '.join(against)}. {_further(numbers['further'])}"
        + (f"Above 1.03: {'; '.join(above)}.\n" if above else "Nothing on this page is above 1.03.\n"),
        "## By what is known\n",
        "`others`: finished runs of other tasks; `own`: of the task itself, too. `value K`, `variance K`, `random K`: "
        "K cells a round, chosen by what they change in the decision, by what they take of the own variance, or at "
        "random. "
        "`worth W`: cells while the best one saves more than W makespans. Beside the ratio, cells a round.\n",
        _table(["", *LOGS.values()], ([name, *(_cell(rounds[log][name]) for log in LOGS)] for name in every)),
        "![Excess against cells a round](evidence/budget.png)\n",
        "What the last cells bring: how many more are measured where a cell is asked to save less, and the makespans "
        "that each of them saves. Where they save more than is asked of them, the rule does not measure too much. "
        f"{_forgone(rounds)}\n",
        _table(
            ["from → to", *LOGS.values()],
            (
                [f"{one} → {other}", *(_saved(rounds[log][one], rounds[log][other]) for log in LOGS)]
                for one, other in LAST_CELLS
            ),
        ),
        "## When measurements are worse than assumed\n",
        "Errors of what is observed, beside 5 % that are taken for 5 %.\n",
        *(
            f"`{way}`:\n\n"
            + _table(
                ["", *LOGS.values()],
                (
                    [text, *(_interval(rounds[log][name]) for log in LOGS)]
                    for text, name in [("as assumed", way), *((each, f"{way} | {each}") for each in disturbed)]
                ),
            )
            for way in ("others", "own", "others, worth 0.002")
        ),
        "## Over a history\n",
        "Rounds 1-25, 26-50, 51-100, 101-200; families of the test tasks arrive as their tasks are drawn.\n",
        _table(
            ["", *LOGS.values()],
            (
                [name, *(" / ".join(f"{v:.2f}" for v in rounds[log][name]["parts"]) for log in LOGS)]
                for name in ("others", "own", "others, worth 0.002")
            ),
        ),
        "## Larger rounds\n",
        "At most eight cells of a round are measured.\n",
        _table(
            ["tasks", "", *LOGS.values()],
            (
                [
                    tasks,
                    name,
                    *(_cell(sizes[log, tasks][name]) if (log, tasks) in sizes else "too few tasks" for log in LOGS),
                ]
                for tasks in ("20", "50")
                for name in ("others", "own", "others, worth 0.002")
            ),
        ),
        "## Errors and intervals\n",
        "Root mean square of what a task's clusters do not share of the error of log time, and the share of 80 % "
        "intervals that hold the truth: of all pairs, and of those that evidence moved.\n",
        _table(
            ["", *LOGS.values()],
            (
                [
                    name,
                    *(
                        f"{row['own']:.3f}; {row['coverage']:.2f}, {row['moved_coverage']:.2f}"
                        if (row := rounds[log][name])["moved"]
                        else f"{row['own']:.3f}; {row['coverage']:.2f}"
                        for log in LOGS
                    ),
                ]
                for name in IN_TABLE
            ),
        ),
        "Intervals reach as many deviations either side as hold 80 % of the errors out of fold; those of a normal "
        "distribution are too wide where few tasks hold most of the variance. As the task itself is measured, they go "
        "over to those of a normal distribution; other tasks' runs leave less of the same errors.\n",
        "## Instead of training\n",
        "Rounds 101-200, when the runs of the first 100 have been learned (`trained again`: processes and mixture, the "
        "networks over operators as they were), or count as evidence. Then what a tenth of the groups to learn from is "
        "worth, all of a task's pairs being runs.\n",
        _table(["", *LOGS.values()], _trainings(numbers["trained"])),
        "## Time\n",
        _table(["milliseconds, median of five", ""], ([name, f"{ms:.1f}"] for name, ms in numbers["ms"].items())),
    ]
    return "\n".join(parts)


def _further(numbers: Numbers) -> str:
    return "".join(
        f"Three draws leave that of {LOGS[log]} open: {own['draws']} further ones, {own['rounds']} rounds, for this "
        f"comparison alone, give {_interval(own['ratio'])}. "
        for log, own in numbers.items()
    )


def _forgone(rounds: Numbers) -> str:
    """Of a log that misses its goal of cells: what those that it has beyond those of a higher worth save."""
    _, way, key, most = GOALS[-1]
    fewer, worth = LAST_CELLS[-1][0], float(way.split()[-1])
    saved = {log: _each(own[fewer], own[way]) for log, own in rounds.items() if own[way][key] > most[log]}
    return " ".join(
        f"On {LOGS[log]} the goal of {most[log]:g} cells a round would forgo some that save {each:.4f} makespans each, "
        f"{each / worth:.1f} times what is asked of them."
        for log, each in saved.items()
    )


def _each(fewer: dict[str, float], more: dict[str, float]) -> float:
    return (fewer["excess"] - more["excess"]) / (more["cells"] - fewer["cells"])


def _saved(fewer: dict[str, float], more: dict[str, float]) -> str:
    return f"{more['cells'] - fewer['cells']:.1f} more, {_each(fewer, more):.4f} each"


def _trainings(trained: Numbers) -> Iterable[list[str]]:
    for name in ("trained again", "own", "own, worth 0.002"):
        yield [name, *(_interval(trained[log]["same runs"]["ways"][name]) for log in LOGS)]
    less = "a tenth less to learn from"
    yield [less, *(_interval(trained[log]["tenth"]["ways"][less]) for log in LOGS)]
    yield ["… so many runs", *(f"{trained[log]['tenth']['runs']:.0f}" for log in LOGS)]


def _goal(rounds: Numbers, log: str, way: str, key: str, most: dict[str, float]) -> str:
    if log not in most:
        return ""
    value = rounds[log][way][key]
    return f"{value:.2f} (≤ {most[log]:.2f}, {'met' if value <= most[log] else '**missed**'})"


def _cell(row: dict[str, float]) -> str:
    return _interval(row) + (f", {row['cells']:.1f}" if row["cells"] else "")


def _interval(row: dict[str, float]) -> str:
    return f"{row['mean']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}]"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
