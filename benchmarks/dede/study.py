"""What every case study of the ADMM core does: compare, trace, go on warm, draw and print.

A case is a name, functions that draw, change, split and exactly solve its instances, and a class of blocks with
`cold`, `carried` and `quality`: the objective of a point *after feasibility repair*, larger is better. Seconds are
CPU seconds of one thread, repairs and looks at quality not counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mfcp.matching.admm.core import State, iterate

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


def penalty(blocks: Any, start: State) -> Iterator[State]:
    """Ablation: x = z only by a growing penalty, no dual."""
    z, rho = start.z, start.rho
    for iteration in range(1, 10**9):
        x = blocks.resource_step(z, rho)
        z = blocks.demand_step(x, rho)
        yield State(z, np.zeros_like(z), rho, iteration, x)
        rho *= 1.02


def joint(blocks: Any, start: State, inner: int = 20, settled: float = 1e-3) -> Iterator[State]:
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
        begin = time.thread_time()
        state = next(states)
        spent += time.thread_time() - begin
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
    begin = time.thread_time()
    result = work()
    return result, time.thread_time() - begin


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


def program(
    title: str, cases: list[Case], argv: list[str] | None, *, scale: float, rounds: int, quick_scale: float
) -> None:
    """The program of a case study: options, runs, table, JSON and plots."""
    parser = argparse.ArgumentParser(description=title, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=scale, help=f"share of the published size (default {scale:g})")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0, 1, …")
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds with 5 %% churn")
    parser.add_argument("--quick", action="store_true", help="one seed, two rounds, a small size")
    parser.add_argument("--out", type=Path, help="folder for a JSON file and a plot per case")
    options = parser.parse_args(argv)
    if options.quick:
        options.scale, options.seeds, options.rounds = quick_scale, 1, 2
    for case in cases:
        results = [run(case, seed, options.scale, options.rounds) for seed in range(options.seeds)]
        report(case, results, options.scale)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            stem = case.name.replace(" ", "_").replace(",", "")
            plot(case, results, options.out / f"{stem}.png")
            text = json.dumps([vars(result) for result in results], indent=1)
            (options.out / f"{stem}.json").write_text(text + "\n", encoding="utf-8")


def spread(values: list[float], form: str = "{:.3f}") -> str:
    """Mean and range over seeds."""
    if not values:
        return "-"
    mean, low, high = (form.format(f(values)) for f in (np.mean, min, max))
    return mean if low == high else f"{mean} ({low} to {high})"


def report(case: Case, results: list[Result], scale: float) -> None:
    """Tables over seeds: quality and seconds, then iterations cold and warm, then what was to be reached."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{case.name}: {scale:g} of the published size, seeds 0-{len(results) - 1}, mean (range)")
    for column in ("solver", "quality, exact = 1", "CPU s", "ADMM's quality in that time", "CPU s to 0.99"):
        table.add_column(column, justify="left" if column == "solver" else "right")
    ours = [result.traces["admm"] for result in results]

    def to_goal(trace: Trace) -> float:
        return next((spent for spent, quality in trace if quality >= GOAL), np.inf)

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
    console = Console(width=130)
    console.print(table)
    pairs = [p for r in results for p in zip(r.cold, r.warm, strict=True)]
    counts = [(c, w) for c, w in pairs if c is not None and w is not None]
    if counts:
        cold, warm = np.array(counts, float).T
        console.print(
            f"  iterations to 0.99 over {len(pairs)} rounds with 5 % churn: cold {cold.mean():.0f}, warm "
            f"{warm.mean():.0f}, ratio {warm.sum() / cold.sum():.2f}; rounds that did not get there: "
            f"{sum(c is None for c, _ in pairs)} cold, {sum(w is None for _, w in pairs)} warm"
        )
    lead = [at(result.traces["admm"], result.pop[4][1]) - result.pop[4][0] for result in results]
    met = len(counts) == len(pairs) > 0 and warm.sum() < cold.sum() / 2
    console.print(
        f"  0.99 of exact: {sum(result.reached is not None for result in results)} of {len(results)} seeds; ADMM minus "
        f"POP-4 in its time on one core: {spread(lead, '{:+.3f}')}; warm in less than half: {'yes' if met else 'NO'}"
    )


def plot(case: Case, results: list[Result], path: Path) -> None:
    """Quality over CPU time: one line per seed and solver, POP and exact as points."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=(2, 1), layout="constrained")
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
    left.set(xscale="log", xlabel="CPU seconds, one thread", ylabel="quality after repair, exact = 1")
    left.set_ylim(min(0.8, lowest - 0.02), 1.01)
    left.legend(loc="lower right", fontsize=8)
    rounds = range(1, len(results[0].cold) + 1)
    for name, colour in (("cold", "C7"), ("warm", "C0")):
        counts = np.array([[np.nan if n is None else n for n in getattr(result, name)] for result in results])
        if counts.size:
            right.plot(rounds, np.nanmean(counts, axis=0), color=colour, marker="o", ms=4, label=f"{name} start")
            low, high = np.nanmin(counts, axis=0), np.nanmax(counts, axis=0)
            right.fill_between(rounds, low, high, color=colour, alpha=0.2)
    right.set(xlabel="round, 5 % of the demands replaced", ylabel="iterations to 0.99 of exact")
    right.set_ylim(bottom=0)
    right.xaxis.get_major_locator().set_params(integer=True)
    right.legend(fontsize=8)
    figure.suptitle(case.name)
    figure.savefig(path, dpi=150)
    plt.close(figure)
