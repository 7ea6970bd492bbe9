"""All three case studies at the published size, one seed: shares of the optimum over CPU seconds of one core.

    python -m benchmarks.dede --full                some twenty minutes, 4 GiB
    python -m benchmarks.dede.full --only traffic   one of them

Cluster scheduling: 456 types, 2,588 kinds of job of which 1,750 jobs run, rounds of six minutes in which jobs come and
end every 100 s. Optima are bounds with a proof (`bounds`). Traffic: 1,739 nodes, 8,558 links, 24,000 pairs; optima by
HiGHS. Load balancing: 2,048 shards on 256 servers, by which replicas stay.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.dede import cluster_scheduling, load_balancing, traffic
from benchmarks.dede.bounds import Bound, best_max_min, best_proportional, max_min_bound, proportional_bound
from benchmarks.dede.cluster_scheduling import Jobs, MaxMin, Proportional
from benchmarks.dede.study import GOAL, at, joint, penalty, show, timed, to_goal
from mfcp.matching.decomposition.alternating_directions import State, iterate
from mfcp.progress import progress

KINDS, ACTIVE, ROUND_S, GAP_S, ROUNDS = 2588, 1750, 360.0, 100.0, 5
LINKS = 8558
SECONDS = (3, 10, 30, 100)
FLOW_S = 60.0  # CPU seconds of ADMM on traffic
LOOKS = 10  # iterations between two looks at the quality
PINNED = 0.9  # of the pairs, the small ones, on their shortest paths
Trace = list[tuple[float, float]]


def followed(
    blocks: Any, states: Iterator[State], most_s: float, most: int = 10**6
) -> tuple[Trace, np.ndarray, State, int]:
    """Best quality over CPU seconds, looks not counted; the best point, the last state, and iterations."""
    trace: Trace = []
    spent, best, done = 0.0, -np.inf, 0
    while spent < most_s and done < most:
        begin = time.process_time()
        state = list(islice(states, LOOKS))[-1]
        spent, done = spent + time.process_time() - begin, done + LOOKS
        for point in (state.z, state.average().z, state.x):
            quality = blocks.quality(point)
            if quality > best:
                best, best_point = quality, point
        trace.append((spent, best))
    return trace, best_point, state, done


def shares(trace: Trace, optimum: float) -> list[str]:
    """Cells: share of the optimum after SECONDS and at the end, and CPU seconds to the goal."""
    relative = [(spent, quality / optimum) for spent, quality in trace]
    told = [at(relative, s) if relative[-1][0] >= s or s == SECONDS[0] else 0.0 for s in SECONDS]
    cells = [f"{share:.3f}" if share else "" for share in told]
    return [*cells, f"{relative[-1][1]:.4f}", f"{to_goal(relative):.1f}"]


def table_of(title: str, rows: dict[str, tuple[Trace, int]], optimum: float) -> None:
    """A line per solver."""
    from rich.table import Table

    table = Table(title=title)
    for column in ("solver", *(f"at {s} s" for s in SECONDS), "end", f"CPU s to {GOAL}", "CPU s", "iterations"):
        table.add_column(column, justify="left" if column == "solver" else "right")
    for name, (trace, count) in rows.items():
        table.add_row(name, *shares(trace, optimum), f"{trace[-1][0]:.1f}", str(count or ""))
    show(table)


def once(made: Callable[[], float]) -> tuple[Trace, int]:
    """A solver that has one answer."""
    value, seconds = timed(made)
    return [(seconds, value)], 0


def drawn_jobs(seed: int) -> tuple[Jobs, Jobs, np.ndarray]:
    """All kinds of job; the jobs that run at first, and their kinds."""
    rng = np.random.default_rng([seed, 35])
    peak = rng.lognormal(0, 0.6, cluster_scheduling.TYPES)
    g, s = cluster_scheduling.new_jobs(peak, KINDS, rng)
    kinds = Jobs(8.0 * rng.integers(1, 9, cluster_scheduling.TYPES), g, s, peak)
    active = rng.integers(KINDS, size=ACTIVE)
    return kinds, of_kinds(kinds, active), active


def of_kinds(kinds: Jobs, active: np.ndarray) -> Jobs:
    """Jobs of these kinds."""
    return replace(kinds, g=kinds.g[active], s=kinds.s[:, active])


def scheduling(seed: int) -> None:
    """Max-min and proportional fairness: curves, POP, ablations, warm rounds."""
    kinds, jobs, active = drawn_jobs(seed)
    for name, kind, bound, exact in (
        ("max-min", MaxMin, max_min_bound, best_max_min),
        ("proportional", Proportional, proportional_bound, best_proportional),
    ):
        blocks: Any = kind(jobs)
        rows: dict[str, tuple[Trace, int]] = {}
        with progress(f"cluster scheduling, {name}", 6) as advance:
            trace, _, state, count = followed(blocks, iterate(blocks, blocks.cold()), SECONDS[-1])
            rows["ADMM"] = trace, count
            advance()
            best, seconds = timed(lambda b=blocks, e=exact: b.repaired(e(jobs)))
            rows["programs of few pairs"] = [(seconds, blocks.quality(best))], 0
            proof: Bound = bound(jobs, best)
            advance()
            for label, ablation in (("no dual", penalty), ("joint", joint)):
                found, _, _, steps = followed(blocks, ablation(blocks, blocks.cold()), SECONDS[-2])
                rows[label] = found, steps
                advance()
            rows["greedy"] = once(lambda b=blocks: b.quality(cluster_scheduling.filled(jobs)))
            rows["same shares for all"] = once(lambda b=blocks: b.quality(b.cold().z))
            for parts in (16, 4):
                rows[f"POP-{parts}"] = once(lambda b=blocks, p=parts, e=exact: _pop(b, jobs, p, e, seed))
                advance()
        optimum = max(proof.bound, rows["ADMM"][0][-1][1])
        size = f"{len(jobs.W)} types, {len(jobs.g)} jobs"
        table_of(f"cluster scheduling, {name}: {size}, share of a proven bound", rows, optimum)
        show(f"  bound {proof.bound:.4f}; {trace[-1][0] / count:.3f} CPU s an iteration; {_memory()}")
        show(f"  {_warm(kinds, active, kind, bound, state, seed)}")


def _pop(blocks: Any, jobs: Jobs, parts: int, exact: Callable[[Jobs], np.ndarray], seed: int) -> float:
    split = cluster_scheduling.split(jobs, parts, np.random.default_rng([seed, parts]))
    points = [exact(part) for part, _ in split]
    value: float = blocks.quality(cluster_scheduling.merge(points, split, blocks))
    return value


def _warm(
    kinds: Jobs, active: np.ndarray, kind: Any, bound: Callable[[Jobs, np.ndarray], Bound], state: State, seed: int
) -> str:
    """Iterations to the goal in rounds of six minutes, warm and cold."""
    rng = np.random.default_rng([seed, 36])
    counts: dict[str, list[float]] = {"warm": [], "cold": []}
    for _ in range(ROUNDS):
        renewed = rng.choice(len(active), min(1 + rng.poisson(ROUND_S / GAP_S), len(active)), replace=False)
        active = active.copy()
        active[renewed] = rng.integers(KINDS, size=len(renewed))
        jobs = of_kinds(kinds, active)
        blocks = kind(jobs)
        carried = blocks.carried(state, renewed)
        trace, near, _, _ = followed(blocks, iterate(blocks, carried), np.inf, 100)
        optimum = max(bound(jobs, blocks.repaired(near)).bound, trace[-1][1])
        for name, start in (("warm", carried), ("cold", blocks.cold())):
            found, _, last, _ = followed(blocks, iterate(blocks, start), np.inf, 100 if name == "warm" else 600)
            first = next((k + 1 for k, (_, q) in enumerate(found) if q >= GOAL * optimum), np.inf)
            counts[name].append(LOOKS * first)
            state = last if name == "warm" else state
    said = ", ".join(f"{name} {np.median(own):g} ({min(own):g} to {max(own):g})" for name, own in counts.items())
    return f"iterations to {GOAL} in {ROUNDS} rounds of six minutes, median and range: {said}"


def flows(seed: int) -> None:
    """Total flow and the least maximum utilisation."""
    network, seconds = timed(lambda: traffic.draw(seed, 1.0, links=LINKS))
    show(f"traffic: {len(network.c)} links, {len(network.d)} pairs, {len(network.links)} entries, {seconds:.0f} CPU s")
    for name, kind, utilisation in (
        ("total flow", traffic.TotalFlow, False),
        ("link utilisation", traffic.Utilisation, True),
    ):
        blocks: Any = kind(network)
        rows: dict[str, tuple[Trace, int]] = {}
        with progress(f"traffic, {name}", 4) as advance:
            trace, _, _, count = followed(blocks, iterate(blocks, blocks.cold()), FLOW_S)
            rows["ADMM"] = trace, count
            advance()
            rows["HiGHS"] = once(lambda b=blocks, u=utilisation: b.quality(traffic.exact(network, utilisation=u)))
            advance()
            rows["POP-16"] = once(lambda b=blocks, u=utilisation: _pop_flows(b, network, 16, seed, u))
            advance()
            rows["pinning"] = once(lambda b=blocks, u=utilisation: b.quality(pinned(network, b, u)))
            advance()
        optimum = rows["HiGHS"][0][-1][1]
        table_of(f"traffic, {name}: share of HiGHS's optimum", rows, optimum)
        busiest = f"the busiest link carries {1 / optimum:.2f} times its capacity"
        said = busiest if utilisation else f"{optimum / network.d.sum():.1%} of the demand"
        show(f"  optimum: {said}; {trace[-1][0] / count:.4f} CPU s an iteration; {_memory()}")


def _pop_flows(blocks: Any, network: traffic.Network, parts: int, seed: int, utilisation: bool) -> float:
    split = traffic.split(network, parts, np.random.default_rng([seed, parts]))
    points = [traffic.exact(part, utilisation=utilisation) for part, _ in split]
    value: float = blocks.quality(traffic.merge(points, split, blocks))
    return value


def pinned(network: traffic.Network, blocks: Any, utilisation: bool) -> np.ndarray:
    """Entries of the flow that sends the small pairs over their shortest paths and HiGHS the tenth that are large."""
    large = np.argsort(-network.d)[: round((1 - PINNED) * len(network.d))]
    shortest = np.zeros(blocks.size)
    shortest[:, 0] = network.d
    shortest[large] = 0.0
    shortest /= np.maximum(blocks.worst(blocks.load(shortest)), 1.0) if not utilisation else 1.0
    used = blocks.load(shortest)
    left = np.maximum(network.c * (1.0 - used), 1e-9) if not utilisation else network.c
    part = traffic.chosen(replace(network, c=left), large)
    own = traffic.Flows(part)
    flow = shortest / blocks.unit
    found = np.where(own.exists, own.gathered(traffic.exact(part, utilisation=utilisation)), 0.0)
    flow[large] = found * own.unit / blocks.unit
    entries: np.ndarray = blocks.spread(flow)
    return entries


def _memory() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB at most"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    studies = {
        "scheduling": scheduling,
        "traffic": flows,
        "balancing": lambda seed: load_balancing.published(seed, 1.0),
    }
    parser.add_argument("--only", choices=studies, help="one of them")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    begin = time.perf_counter()
    for name, study in studies.items():
        if options.only in (None, name):
            study(options.seed)
    show(f"{(time.perf_counter() - begin) / 60:.1f} minutes; {_memory()}")


if __name__ == "__main__":
    main()
