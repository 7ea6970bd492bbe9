"""Load balancing on the ADMM core: as few new replicas of shards as keep every server's load within a band.

    min Σ_ij (1 - p_ij) x'_ij    (1 - ε) L <= Σ_j l_j x_ij <= (1 + ε) L,  Σ_j x'_ij <= 16,  Σ_i x_ij = 1,
                                 0 <= x <= x' in {0, 1}

p_ij says that shard j lies on server i already, x_ij is the share of its queries that server i answers. A server is a
resource, a shard is a demand. The published set-up [Xu2025]_ exactly: 2,048 shards on 256 servers dealt out in turn,
ε = 0.1, loads 100 (1024 s / N + 1)^-z rounded to 1e-4 with z = 0.25 + 0.5 u, a new u in every round, rounds go on from
the placement before. The default is smaller, so that HiGHS can be the referee. ADMM solves the relaxation x' = x; a
repair makes its shares integer while it runs, and the best plan of those is kept.
Usage: python -m benchmarks.dede.load_balancing [--scale S] [--limit SECONDS] [--out DIR]

.. [Xu2025] Xu, Yu, Yan, DeDe, OSDI '25, arXiv:2412.11447.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.dede.study import joint, penalty, spread, timed
from mfcp.matching.admm.core import State, iterate, nonnegative_quadratic, project_simplex

SERVERS, SHARDS, EPSILON, MEMORY = 256, 2048, 0.1, 16
LEAST = (0.02, 0.2)  # of the mean load: what less of it carries is not worth a replica; both are tried
ITERATIONS, LOOK = 200, 10  # of a round; how often plans are made
RESTS = 1e-3  # residual at which a round's iterations are counted
WARM_UP = 2


@dataclass(frozen=True)
class Shards:
    """Loads (N,), placement (M, N) booleans, and the band's ends."""

    load: np.ndarray
    placed: np.ndarray
    low: float
    high: float


def first_placement(scale: float) -> np.ndarray:
    M, N = max(round(SERVERS * scale), 4), max(round(SHARDS * scale), 32)
    return np.arange(N) % M == np.arange(M)[:, None]


def round_of(placed: np.ndarray, u: float) -> Shards:
    """The loads of one round on a placement."""
    M, N = placed.shape
    load = np.round(1e6 / (np.arange(N) / N * 1024 + 1) ** (0.25 + 0.5 * u)) / 1e4
    mean = load.sum() / M
    return Shards(load, placed, (1 - EPSILON) * mean, (1 + EPSILON) * mean)


class Balance:
    """Blocks of the relaxation; a point is (M, N) shares."""

    start_rho = 1.0

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        (M, N), scale = shards.placed.shape, float(np.linalg.norm(shards.load))
        self.row, self.low, self.high = shards.load / scale, shards.low / scale, shards.high / scale
        # rows of a server: load below the band's end, load above its beginning, replicas
        rows = np.stack([self.row, -self.row, np.full(N, N**-0.5)])
        self.limit = np.array([self.high, -self.low, MEMORY * N**-0.5])
        self.rows, self.gram = rows, np.repeat((rows @ rows.T)[:, :, None], M, axis=2)
        self.guess = np.zeros((3, M))
        self.cost = 1.0 - shards.placed

    def cold(self) -> State:
        z = self.shards.placed / self.shards.placed.sum(axis=0)
        return State(z, np.zeros_like(z), self.start_rho)

    def resource_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        excess = self.rows @ point.T - self.limit[:, None]
        self.guess = nonnegative_quadratic(self.gram, excess, self.guess)
        return point - self.guess.T @ self.rows

    def demand_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        return project_simplex((point - self.cost / rho).T).T


def moves(shards: Shards, shares: np.ndarray) -> int:
    """New replicas; one too many for each server that is out of the band or over its memory."""
    held = shares > 0
    load = shares @ shards.load
    tolerance = 1e-9 * shards.high
    broken = (load > shards.high + tolerance) | (load < shards.low - tolerance) | (held.sum(axis=1) > MEMORY)
    return int((held & ~shards.placed).sum()) + len(shards.load) * int(broken.any())


def repaired(shards: Shards, point: np.ndarray, least: float) -> np.ndarray:
    """Shares near a point, within the band where that succeeds.

    New replicas that carry less than `least` of the mean load are dropped. Then every transfer takes from the server
    furthest above the band, or else from one with most to give, and goes to the one furthest below, or else to one of
    the emptiest. Replicas that exist carry it for nothing; else the shard that is just large enough gets a new one.
    """
    shares = np.maximum(point, 0.0)
    mean = 0.5 * (shards.low + shards.high)
    shares[(~shards.placed & (shares * shards.load < least * mean)) | (shares < 1e-6)] = 0.0
    gone = shares.sum(axis=0) <= 0
    shares[:, gone] = shards.placed[:, gone]
    shares /= shares.sum(axis=0)
    for _ in range(4 * len(shares)):
        load = shares @ shards.load
        if (load.max() <= shards.high and load.min() >= shards.low) or not _transfer(shards, shares, load):
            break
    return shares


def trimmed(shards: Shards, shares: np.ndarray) -> np.ndarray:
    """The plan without those new replicas that it can do without, after repair."""
    fewest = moves(shards, shares)
    for server, shard in np.argwhere((shares > 0) & ~shards.placed):
        if shares[server, shard] <= 0 or shares[server, shard] >= 1:
            continue
        without = shares.copy()
        without[server, shard] = 0.0
        without = repaired(shards, without / without.sum(axis=0), 0.0)
        if (now := moves(shards, without)) < fewest:
            shares, fewest = without, now
    return shares


def _transfer(shards: Shards, shares: np.ndarray, load: np.ndarray) -> bool:
    """Move load between two servers in place; False where no pair helps."""
    over = load.max() > shards.high
    giver = int(load.argmax())
    givers = [giver] if over else np.argsort(-load)[:8]
    takers = np.argsort(load)[:8] if over else [int(load.argmin())]
    for source in givers:
        for target in takers:
            must = max(load[source] - shards.high, shards.low - load[target], 0.0)
            most = min(load[source] - shards.low, shards.high - load[target])
            if source == target or most <= 0:
                continue
            carried = shares[source] * shards.load
            there = shares[target] > 0
            held = there | shards.placed[target]
            full = there.sum() >= MEMORY
            free = np.where(held & (carried > 0) & (there | ~full), carried, 0.0)
            amount = min(max(must, 0.5 * most), most)
            if free.max() > 1e-12 * shards.high:
                shard = int(free.argmax())
            elif not full and carried.max() > 0:
                enough = np.where(carried >= min(must, most), carried, np.inf)
                shard = int(enough.argmin() if np.isfinite(enough).any() else carried.argmax())
            else:
                continue
            part = min(amount, carried[shard])
            if carried[shard] <= most and carried[shard] >= must:
                part = carried[shard]  # a whole shard, which frees memory
            shares[target, shard] += part / shards.load[shard]
            shares[source, shard] -= part / shards.load[shard]
            if shares[source, shard] < 1e-9:
                shares[target, shard] += shares[source, shard]
                shares[source, shard] = 0.0
            return True
    return False


def exact(shards: Shards, limit: float) -> tuple[np.ndarray | None, float]:
    """Shares of the best plan that HiGHS finds in `limit` seconds, and its bound of the moves."""
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    M, N = shards.placed.shape
    P = M * N
    by_server = sparse.kron(sparse.eye(M), np.ones((1, N)))
    loads = sparse.hstack([sparse.kron(sparse.eye(M), shards.load[None] / shards.high), sparse.csr_matrix((M, P))])
    memory = sparse.hstack([sparse.csr_matrix((M, P)), by_server])
    once = sparse.hstack([sparse.kron(np.ones((1, M)), sparse.eye(N)), sparse.csr_matrix((N, P))])
    within = sparse.hstack([sparse.eye(P), -sparse.eye(P)])
    result = milp(
        np.append(np.zeros(P), (~shards.placed).ravel().astype(float)),
        constraints=[
            LinearConstraint(loads, shards.low / shards.high, 1.0),
            LinearConstraint(memory, 0, MEMORY),
            LinearConstraint(once, 1.0, 1.0),
            LinearConstraint(within, -np.inf, 0.0),
        ],
        bounds=Bounds(0, 1),
        integrality=np.append(np.zeros(P), np.ones(P)),
        options={"time_limit": limit},
    )
    bound = 0.0 if result.mip_dual_bound is None else float(np.ceil(result.mip_dual_bound - 1e-6))
    if result.x is None:
        return None, bound
    shares = np.where(result.x[P:] > 0.5, np.maximum(result.x[:P], 0.0), 0.0).reshape(M, N)
    return shares / shares.sum(axis=0), bound


def pop(shards: Shards, parts: int, limit: float, rng: np.random.Generator) -> np.ndarray:
    """POP: random groups of servers, each with the shards that lie there, solved alone; then one repair of all."""
    shares = shards.placed / shards.placed.sum(axis=0)
    home = shards.placed.argmax(axis=0)
    for group in np.array_split(rng.permutation(len(shares)), parts):
        own = np.flatnonzero(np.isin(home, group))
        at = np.ix_(group, own)
        found, _ = exact(Shards(shards.load[own], shards.placed[at], shards.low, shards.high), limit)
        if found is not None:  # a group whose mean load is outside the band has no plan of its own
            shares[:, own] = 0.0
            shares[at] = found
    return repaired(shards, shares, LEAST[0])


def search(shards: Shards, states: Iterator[State]) -> tuple[np.ndarray, list[tuple[float, int]], int | None, State]:
    """The best plan of a round, (CPU seconds, fewest moves) over iterations, when they came to rest, the last state."""
    best, fewest, trace, rested, spent = None, np.inf, [], None, 0.0
    begin = time.thread_time()
    for count, state in enumerate(islice(states, ITERATIONS), 1):
        if rested is None and state.residual <= RESTS:
            rested = count
        if count % LOOK:
            continue
        for point in (state.z, state.average().z):
            for least in LEAST:
                plan = repaired(shards, point, least)
                if moves(shards, plan) < fewest:
                    best, fewest = plan, moves(shards, plan)
        if count == ITERATIONS:
            best = trimmed(shards, best)
            fewest = moves(shards, best)
        spent = time.thread_time() - begin
        trace.append((spent, int(fewest)))
    return best, trace, rested, state


@dataclass
class Round:
    """What every solver needed: moves, CPU seconds; exact is HiGHS's best plan, bound its proof.

    Cold and warm are iterations to rest: of the round itself after the one before it, whose loads were drawn apart from
    its own; and of the same placement under loads of which u has changed by 5 %.
    """

    seed: int
    number: int
    moves: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    traces: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    bound: float = 0.0
    cold: int | None = None
    warm: int | None = None
    cold_near: int | None = None
    warm_near: int | None = None


def run(seed: int, scale: float, rounds: int, limit: float) -> list[Round]:
    """Rounds of one seed; the placement goes on from ADMM's plan of the round before, started warm."""
    rng, placed, found, state = np.random.default_rng([seed, 33]), first_placement(scale), [], None
    for number in range(-WARM_UP, rounds):
        u = rng.random()
        shards = round_of(placed, u)
        blocks = Balance(shards)
        start = blocks.cold() if state is None else state
        plan, trace, rested, state = search(shards, iterate(blocks, start))
        placed = plan > 0
        if number < 0:
            continue
        this = Round(seed, number, warm=rested, traces={"admm, warm": trace})
        blocks = Balance(shards)
        _, this.traces["admm, cold"], this.cold, last = search(shards, iterate(blocks, blocks.cold()))
        near = round_of(shards.placed, 0.95 * u + 0.05 * rng.random())
        for key, first in (("cold_near", Balance(near).cold()), ("warm_near", last)):
            states = islice(iterate(Balance(near), first), ITERATIONS)
            setattr(this, key, next((n for n, each in enumerate(states, 1) if each.residual <= RESTS), None))
        for name, ablation in (("penalty", penalty), ("joint", joint)):
            blocks = Balance(shards)
            _, this.traces[name], _, _ = search(shards, ablation(blocks, blocks.cold()))
        for name, each in this.traces.items():
            this.seconds[name], this.moves[name] = each[-1]
        (best, this.bound), this.seconds["exact"] = timed(lambda shards=shards: exact(shards, limit))
        this.moves["exact"] = len(shards.load) if best is None else moves(shards, best)
        part, this.seconds["POP-4"] = timed(lambda shards=shards: pop(shards, 4, limit / 4, rng))
        this.moves["POP-4"] = moves(shards, part)
        at_rest = shards.placed / shards.placed.sum(axis=0)
        repair, this.seconds["repair alone"] = timed(lambda s=shards, p=at_rest: trimmed(s, repaired(s, p, LEAST[0])))
        this.moves["repair alone"] = moves(shards, repair)
        found.append(this)
    return found


def report(rounds: list[Round], scale: float, limit: float) -> None:
    from rich.console import Console
    from rich.table import Table

    seeds = sorted({each.seed for each in rounds})
    table = Table(title=f"load balancing: {scale:g} of the published size, {len(rounds)} rounds of seeds {seeds}")
    for column in ("solver", "moves per round, mean (range of seeds)", "CPU s per round"):
        table.add_column(column, justify="left" if column == "solver" else "right")

    def per_seed(values: list[float]) -> list[float]:
        return [float(np.mean([v for v, r in zip(values, rounds, strict=True) if r.seed == s])) for s in seeds]

    for name in ("exact", "POP-4", "repair alone", "admm, cold", "admm, warm", "penalty", "joint"):
        counts = spread(per_seed([float(r.moves[name]) for r in rounds]), "{:.1f}")
        table.add_row(name, counts, spread(per_seed([r.seconds[name] for r in rounds]), "{:.2f}"))
    table.add_row(
        "bound that HiGHS proves", spread(per_seed([r.bound for r in rounds]), "{:.1f}"), f"limit {limit:g} s"
    )
    console = Console(width=130)
    console.print(table)
    total = {name: sum(r.moves[name] for r in rounds) for name in rounds[0].moves}
    ratios = {}
    for name, first, second in (("the next round", "cold", "warm"), ("u changed by 5 %", "cold_near", "warm_near")):
        pairs = [(getattr(r, first) or ITERATIONS, getattr(r, second) or ITERATIONS) for r in rounds]
        cold, warm = np.mean(pairs, axis=0)
        ratios[name] = warm / cold
        console.print(
            f"  iterations to residual {RESTS:g}, at most {ITERATIONS}, {name}: cold {cold:.0f}, warm {warm:.0f}, "
            f"ratio {warm / cold:.2f}"
        )
    fewest = min(total["admm, cold"], total["admm, warm"])
    verdicts = {
        f"0.99 of exact ({total['exact']} moves against {fewest})": total["exact"] >= 0.99 * fewest,
        f"above POP-4 ({total['POP-4']} moves) in less time": fewest <= total["POP-4"]
        and sum(r.seconds["admm, warm"] for r in rounds) <= sum(r.seconds["POP-4"] for r in rounds),
        "warm in less than half": max(ratios.values()) < 0.5,
    }
    console.print("  " + "; ".join(f"{name}: {'yes' if met else 'NO'}" for name, met in verdicts.items()))


def plot(rounds: list[Round], path: Path) -> None:
    """Moves over CPU time, means over rounds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    colours = {"admm, warm": "C0", "admm, cold": "C9", "penalty": "C1", "joint": "C2"}
    labels = {"penalty": "penalty method", "joint": "joint augmented Lagrangian"}
    for name, colour in colours.items():
        steps = np.array([r.traces[name] for r in rounds], float).mean(axis=0)
        axes.plot(*steps.T, color=colour, marker=".", ms=4, label=labels.get(name, name.replace("admm", "ADMM")))
    for name, marker, colour in (("exact", "*", "black"), ("POP-4", "s", "C3"), ("repair alone", "^", "C7")):
        seconds, count = (np.mean([getattr(r, key)[name] for r in rounds]) for key in ("seconds", "moves"))
        axes.scatter(seconds, count, marker=marker, color=colour, s=60, label=name, zorder=3)
    bound = np.mean([r.bound for r in rounds])
    axes.axhline(bound, color="grey", lw=0.8, ls=":", label="bound of HiGHS")
    axes.set(xscale="log", xlabel="CPU seconds per round, one thread", ylabel="moves per round", title="load balancing")
    axes.set_ylim(bottom=0)
    figure.legend(fontsize=8, loc="outside right upper")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(argv: list[str] | None = None) -> list[Round]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1 / 8, help="share of the published size; 1 is all of it")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0, 1, …")
    parser.add_argument("--rounds", type=int, default=2, help=f"after {WARM_UP} to warm up")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of HiGHS per round")
    parser.add_argument("--quick", action="store_true", help="one seed, two rounds, a small size")
    parser.add_argument("--out", type=Path, help="folder for a JSON file and a plot")
    options = parser.parse_args(argv)
    if options.quick:
        options.scale, options.seeds, options.rounds = 1 / 32, 1, 2
    rounds = [each for seed in range(options.seeds) for each in run(seed, options.scale, options.rounds, options.limit)]
    report(rounds, options.scale, options.limit)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        plot(rounds, options.out / "load_balancing.png")
        text = json.dumps([vars(each) for each in rounds], indent=1)
        (options.out / "load_balancing.json").write_text(text + "\n", encoding="utf-8")
    return rounds


if __name__ == "__main__":
    main()
