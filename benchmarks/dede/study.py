"""What every case study of the ADMM core does: compare, trace, go on warm, draw and print.

A case is a name, functions that draw, change, split and exactly solve its instances, and a class of blocks with
`cold`, `carried` and `quality`: the objective of a point *after feasibility repair*, larger is better. Seconds are
CPU seconds of the process, looks at quality not counted; POP's are those of all its parts, one after the other.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mfcp.matching.decomposition.alternating_directions import State, iterate
from mfcp.progress import progress

Part = tuple[Any, np.ndarray]
Trace = list[tuple[float, float]]  # CPU seconds, best quality so far relative to the exact optimum
GOAL = 0.99
PARTS = (4, 16)


@dataclass(frozen=True)
class Case:
    """One objective of one case study.

    Attributes:
        draw: (seed, scale) -> instance.
        churn: (instance, share, rng) -> the next round's instance and which demands are new.
        split: (instance, k, rng) -> POP's parts and the demands of each.
        exact: instance -> a point that is optimal.
        blocks: instance -> `Blocks` with `cold`, `carried` and `quality`.
        merge: (parts' points, parts, whole blocks) -> a point of the whole.
        iterations: of the traced solves.
    """

    name: str
    draw: Callable[[int, float], Any]
    churn: Callable[[Any, float, np.random.Generator], tuple[Any, np.ndarray]]
    split: Callable[[Any, int, np.random.Generator], list[Part]]
    exact: Callable[[Any], np.ndarray]
    blocks: Callable[[Any], Any]
    merge: Callable[[list[np.ndarray], list[Part], Any], np.ndarray]
    iterations: int = 400


@dataclass
class Result:
    """One seed of one case."""

    seed: int
    exact_seconds: float
    traces: dict[str, Trace] = field(default_factory=dict)
    pop: dict[int, tuple[float, float, float]] = field(default_factory=dict)  # quality, CPU s, slowest part's
    reached: int | None = None  # iterations to the goal
    cold: list[int | None] = field(default_factory=list)
    warm: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Requirement:
    """One line of the last table: values of all seeds, and what their median is held to, if anything."""

    case: str
    what: str
    values: list[float]
    goal: float | None = None
    holds: Callable[[float, float], Any] = np.greater_equal

    @property
    def met(self) -> bool | None:
        """Whether the median over seeds holds; None where nothing is asked."""
        return None if self.goal is None else bool(self.holds(float(np.median(self.values)), self.goal))


def penalty(blocks: Any, start: State) -> Iterator[State]:
    """Ablation: x = z only by a growing penalty, no dual."""
    z, rho = start.z, start.rho
    for iteration in range(1, 10**9):
        x = blocks.resource_step(z, rho)
        z = blocks.demand_step(x, rho)
        yield State(z, np.zeros_like(z), rho, iteration, x)
        rho *= 1.02


def joint(blocks: Any, start: State, inner: int = 20, settled: float = 1e-4) -> Iterator[State]:
    """Ablation: the augmented Lagrangian minimised over x and z together before each step of the dual."""
    z, v, rho = start.z, start.v, start.rho
    iteration = 0
    while True:
        for _ in range(inner):
            x = blocks.resource_step(z - v, rho)
            before, z = z, blocks.demand_step(x + v, rho)
            iteration += 1
            yield State(z, v, rho, iteration, x)
            if np.linalg.norm(z - before) <= settled * np.linalg.norm(z):
                break
        v = v + x - z


def traced(
    blocks: Any, states: Iterator[State], optimum: float, most: int, until: float | None = None
) -> tuple[Trace, int | None, State]:
    """Quality over CPU time, the iteration that reached `until` (or the goal, going on), and the last state."""
    trace: Trace = []
    spent, best, reached, done = 0.0, 0.0, None, 0
    first = None
    while done < most:
        begin = time.process_time()
        state = next(states)
        spent += time.process_time() - begin
        first = state.iteration - 1 if first is None else first
        done = state.iteration - first
        if done % 5 and done > 20:
            continue
        mean = state.average()
        for point in (state.z, state.x, mean.z):
            if point is not None:
                best = max(best, blocks.quality(point) / optimum)
        trace.append((spent, best))
        if reached is None and best >= (until or GOAL):
            reached = done
            if until is not None:
                break
    return trace, reached, state


def at(trace: Trace, seconds: float) -> float:
    """Best quality that a trace has after so many seconds."""
    return max((quality for spent, quality in trace if spent <= seconds), default=0.0)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    result = work()
    return result, time.process_time() - begin


def run(case: Case, seed: int, scale: float, rounds: int, share: float = 0.05) -> Result:
    """One seed: exact, ADMM, POP-k, ablations, then rounds with churn, warm against cold."""
    instance = case.draw(seed, scale)
    blocks = case.blocks(instance)
    point, seconds = timed(lambda: case.exact(instance))
    optimum = blocks.quality(point)
    result = Result(seed, seconds)
    trace, result.reached, state = traced(blocks, iterate(blocks, blocks.cold()), optimum, case.iterations)
    result.traces["admm"] = trace
    for name, ablation in (("penalty", penalty), ("joint", joint)):
        result.traces[name] = traced(blocks, ablation(blocks, blocks.cold()), optimum, case.iterations)[0]
    for k in PARTS:
        parts = case.split(instance, k, np.random.default_rng([seed, k]))
        solved = [timed(lambda part=part: case.exact(part)) for part, _ in parts]
        whole = case.merge([points for points, _ in solved], parts, blocks)
        times = [each for _, each in solved]
        result.pop[k] = (blocks.quality(whole) / optimum, sum(times), max(times))
    rng = np.random.default_rng([seed, 99])
    for _ in range(rounds):
        instance, renewed = case.churn(instance, share, rng)
        blocks = case.blocks(instance)
        optimum = blocks.quality(case.exact(instance))
        _, cold, _ = traced(blocks, iterate(blocks, blocks.cold()), optimum, case.iterations, GOAL)
        start = blocks.carried(state, renewed)
        _, warm, state = traced(blocks, iterate(blocks, start), optimum, case.iterations, GOAL)
        result.cold.append(cold)
        result.warm.append(warm)
    return result


def parsed(
    title: str, argv: list[str] | None, *, scale: float, rounds: int, quick_scale: float, more: tuple[Any, ...] = ()
) -> argparse.Namespace:
    """Options of a case study's program; `more` are names and settings of further ones."""
    parser = argparse.ArgumentParser(description=title, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=scale, help=f"share of the published size (default {scale:g})")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them; what is tuned is tuned from 1000 on")
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds, or rounds with 5 %% churn")
    parser.add_argument("--quick", action="store_true", help="one seed, two rounds, a small size")
    parser.add_argument("--out", type=Path, help="folder for plots and JSON files")
    for name, settings in more:
        parser.add_argument(name, **settings)
    options = parser.parse_args(argv)
    if options.quick:
        options.scale, options.seeds, options.rounds = quick_scale, 1, 2
    options.seeds = range(options.first, options.first + options.seeds)
    return options


def program(
    title: str, cases: list[Case], argv: list[str] | None, *, scale: float, rounds: int, quick_scale: float
) -> list[Requirement]:
    """The program of a case study: options, runs, tables, plots."""
    options = parsed(title, argv, scale=scale, rounds=rounds, quick_scale=quick_scale)
    found = []
    for case in cases:
        results = []
        with progress(case.name, len(options.seeds)) as advance:
            for seed in options.seeds:
                results.append(run(case, seed, options.scale, options.rounds))
                advance()
        report(case, results, options.scale)
        found += list(requirements(case, results))
        if options.out:
            drawn = partial(plot, case, results)
            saved(options.out, case.name, [vars(result) for result in results], drawn)
    return found


def saved(out: Path, name: str, results: list[dict[str, Any]], plotted: Callable[[Path], None]) -> None:
    """A JSON file and a plot."""
    out.mkdir(parents=True, exist_ok=True)
    stem = name.replace(" ", "_").replace(",", "")
    (out / f"{stem}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    plotted(out / f"{stem}.png")


def show(renderable: Any) -> None:
    """Print a table or a line, as wide as the tables need whatever the terminal."""
    from rich.console import Console

    Console(width=130).print(renderable)


def spread(values: list[float], form: str = "{:.3f}") -> str:
    """Median and range over seeds."""
    if not values:
        return "-"
    median, low, high = (form.format(f(values)) for f in (np.median, min, max))
    return median if low == high else f"{median} ({low} to {high})"


def report(case: Case, results: list[Result], scale: float) -> None:
    """Quality and seconds of every solver."""
    from rich.table import Table

    seeds = f"seeds {results[0].seed}-{results[-1].seed}"
    table = Table(title=f"{case.name}: {scale:g} of the published size, {seeds}, median (range)")
    for column in ("solver", "quality, exact = 1", "CPU s", "ADMM's quality in that time", "CPU s to 0.99"):
        table.add_column(column, justify="left" if column == "solver" else "right")
    ours = [result.traces["admm"] for result in results]
    seconds = [result.exact_seconds for result in results]
    table.add_row("exact", "1", spread(seconds, "{:.2f}"), spread([at(*a) for a in zip(ours, seconds, strict=True)]))
    for k in PARTS:
        quality, spent, slowest = zip(*(result.pop[k] for result in results), strict=True)
        for name, times in ((f"POP-{k}, one core", spent), (f"POP-{k}, {k} cores", slowest)):
            same = spread([at(*a) for a in zip(ours, times, strict=True)])
            table.add_row(name, spread(list(quality)), spread(list(times), "{:.2f}"), same)
    for name in ("admm", "penalty", "joint"):
        traces = [result.traces[name] for result in results]
        goal = spread([to_goal(trace) for trace in traces], "{:.2f}")
        ends = spread([trace[-1][0] for trace in traces], "{:.2f}")
        table.add_row(name, spread([trace[-1][1] for trace in traces]), ends, "", goal)
    show(table)
    counts = {
        name: [float(n or case.iterations) for r in results for n in getattr(r, name)] for name in ("cold", "warm")
    }
    show(
        f"  iterations to {GOAL}, at most {case.iterations}, over rounds with 5 % churn: cold "
        f"{spread(counts['cold'], '{:.0f}')}, warm {spread(counts['warm'], '{:.0f}')}"
    )


def to_goal(trace: Trace) -> float:
    """CPU seconds until the quality was `GOAL`."""
    return next((spent for spent, quality in trace if quality >= GOAL), np.inf)


def requirements(case: Case, results: list[Result]) -> Iterator[Requirement]:
    """What a case is held to, and how much slower the ablations are."""
    yield Requirement(case.name, f"admm, share of exact >= {GOAL}", [r.traces["admm"][-1][1] for r in results], GOAL)
    leads = [at(r.traces["admm"], r.pop[4][1]) - r.pop[4][0] for r in results]
    yield Requirement(case.name, "admm minus POP-4 in POP-4's time > 0", leads, 0.0, np.greater)
    sums = [[sum(n or case.iterations for n in counts) for counts in (r.warm, r.cold)] for r in results]
    ratios = [warm / cold for warm, cold in sums if cold]
    if ratios:
        yield Requirement(case.name, "warm / cold iterations < 0.5, 5 % churn", ratios, 0.5, np.less)
    for name in ("penalty", "joint"):
        slower = [to_goal(r.traces[name]) / to_goal(r.traces["admm"]) for r in results if r.reached is not None]
        yield Requirement(case.name, f"CPU s to {GOAL}, {name} / admm", slower)


def verdicts(found: list[Requirement]) -> None:
    """The table of all that was to be reached, by medians over seeds."""
    from rich.table import Table

    table = Table(title="Requirements: median over seeds (range)")
    for column in ("case", "requirement", "measured", ""):
        table.add_column(column)
    before = ""
    for each in found:
        if before not in ("", each.case):
            table.add_section()
        words = {True: "met", False: "MISSED", None: ""}
        table.add_row("" if each.case == before else each.case, each.what, spread(each.values), words[each.met])
        before = each.case
    show(table)


def plot(case: Case, results: list[Result], path: Path) -> None:
    """Quality over CPU time: one line per seed and solver, POP and exact as points."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), width_ratios=(2, 1), layout="constrained")
    colours = {"admm": "C0", "penalty": "C1", "joint": "C2"}
    labels = {"admm": "ADMM", "penalty": "penalty method", "joint": "joint augmented Lagrangian"}
    for name, colour in colours.items():
        for seed, result in enumerate(results):
            spent, quality = np.array(result.traces[name]).T
            left.plot(spent, quality, color=colour, alpha=0.7, lw=1.2, label=labels[name] if not seed else None)
    for k, marker in zip(PARTS, ("s", "D"), strict=True):
        quality, spent, _ = zip(*(result.pop[k] for result in results), strict=True)
        left.scatter(spent, quality, marker=marker, color=f"C{3 + PARTS.index(k)}", s=28, label=f"POP-{k}", zorder=3)
    exact = [result.exact_seconds for result in results]
    left.scatter(exact, np.ones(len(exact)), marker="*", color="black", s=70, label="exact", zorder=3)
    left.axhline(GOAL, color="grey", lw=0.8, ls=":")
    lowest = min(quality for result in results for quality, _, _ in result.pop.values())
    left.set(xscale="log", xlabel="CPU seconds", ylabel="quality after repair, exact = 1")
    left.set_ylim(min(0.8, lowest - 0.02), 1.01)
    rounds = range(1, len(results[0].cold) + 1)
    for name, colour in (("cold", "C7"), ("warm", "C0")):
        counts = np.array([[np.nan if n is None else n for n in getattr(result, name)] for result in results])
        if counts.size:
            right.plot(rounds, np.nanmedian(counts, axis=0), color=colour, marker="o", ms=4, label=f"{name} start")
            low, high = np.nanmin(counts, axis=0), np.nanmax(counts, axis=0)
            right.fill_between(rounds, low, high, color=colour, alpha=0.2)
    right.set(xlabel="round, 5 % of the demands replaced", ylabel="iterations to 0.99 of exact")
    right.set_ylim(bottom=0)
    right.xaxis.get_major_locator().set_params(integer=True)
    figure.legend(loc="outside lower center", ncols=8, fontsize=8)
    figure.suptitle(case.name)
    figure.savefig(path, dpi=150)
    plt.close(figure)
