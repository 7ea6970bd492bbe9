"""Load balancing on the ADMM core: as few new replicas of shards as keep every server's load within a band.

    min Σ_ij (1 - p_ij) x'_ij    (1 - ε) L <= Σ_j l_j x_ij <= (1 + ε) L,  Σ_j x'_ij <= 16,  Σ_i x_ij = 1,
                                 0 <= x <= x' in {0, 1}

p_ij says that shard j lies on server i already, x_ij is the share of its queries that server i answers. A server is a
resource, a shard is a demand. The published set-up [Xu2025]_: 2,048 shards on 256 servers dealt out in turn, ε = 0.1,
loads 100 (1024 s / N + 1)^-z rounded to 1e-4 with z = 0.25 + 0.5 u, a new u in every round, rounds go on from the
placement before; seed 0 has the published u. The default is an eighth of the servers and shards, so that HiGHS can be
the referee; `--published` is all of it, 100 rounds of which 20 are to warm up, by which replicas the next round finds:
the problem allows x' = 1 where x = 0, so those that answer nothing may stay. Then solvers on common placements, because
what a run moves is its placements' doing.

ADMM solves the relaxation x' = x. A repair makes its shares a plan every few iterations; the best of these plans is
finished once, at the end, by maximum flows. POP and the ablations get the same repair and the same finish, and so does
the placement itself ("repair alone"), which shows how much of the work they do. Iterations, warm against cold, are
those until the shares are within 1 % of the relaxation's optimum, by HiGHS, and of the band.
Usage: python -m benchmarks.dede.load_balancing [--quick] [--scale S] [--limit SECONDS] [--out DIR] [--published]

.. [Xu2025] Xu, Yu, Yan, DeDe, OSDI '25, arXiv:2412.11447.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.dede.replicas import (
    MEMORY,
    WHIT,
    Shards,
    all_in_use,
    broken,
    first_placement,
    kept,
    moves,
    planned,
    published_numbers,
    repaired,
)
from benchmarks.dede.replicas import round_of as instance
from benchmarks.dede.study import GOAL, Requirement, joint, parsed, penalty, saved, show, spread, timed, verdicts
from mfcp.matching.decomposition.alternating_directions import State, iterate, nonnegative_quadratic, project_simplex
from mfcp.progress import progress

NAME = "load balancing"
ITERATIONS = 60  # of a round
LOOKS = {*range(1, 11), *range(12, 31, 2), *range(35, 61, 5)}  # iterations after which a plan is made
WARM_UP = 2
CLOSE, MOST = 0.01, 300  # what counts as solved, of moves and of the mean load; iterations to get there at most
PUBLISHED, ITERATIONS_PUBLISHED = (20, 80), 20  # rounds to warm up, rounds; iterations a round
COMMON, POP_SECONDS = (20, 40), 10.0  # rounds of which solvers are compared on the same placements; HiGHS in each
RULES = {"used": "that answer queries", "idle": "all, as memory allows", "strict": "all, each answers some"}


class Balance:
    """Blocks of the relaxation; a point is (M, N) shares."""

    start_rho = 200.0  # moves are few and shares small; tuned on seeds from 1000 on

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
        """The placement, every shard in equal shares on its servers."""
        z = self.shards.placed / self.shards.placed.sum(axis=0)
        return State(z, np.zeros_like(z), self.start_rho)

    def resource_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        excess = self.rows @ point.T - self.limit[:, None]
        self.guess = nonnegative_quadratic(self.gram, excess, self.guess)
        return point - self.guess.T @ self.rows

    def demand_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        return project_simplex((point - self.cost / rho).T).T


def exact(shards: Shards, limit: float) -> tuple[np.ndarray | None, float]:
    """Shares of the best plan that HiGHS finds in `limit` seconds, and its bound of the moves.

    Memory is left out at first: a plan that happens to keep it is optimal with it, and it is found sooner.
    """
    shares, bound = _exact(shards, limit, memory=False)
    if shares is None or ((shares > 0).sum(axis=1) <= MEMORY).all():
        return shares, bound
    return _exact(shards, limit, memory=True)


def _exact(shards: Shards, limit: float, *, memory: bool) -> tuple[np.ndarray | None, float]:
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    (M, N), placed = shards.placed.shape, shards.placed.ravel()
    P = M * N
    binary = np.arange(P) if memory else np.flatnonzero(~placed)
    Q = len(binary)
    eye, free = sparse.eye(M), sparse.csr_matrix((M, Q))
    loads = sparse.hstack([sparse.kron(eye, shards.load[None] / shards.high), free])
    once = sparse.hstack([sparse.kron(np.ones((1, M)), sparse.eye(N)), sparse.csr_matrix((N, Q))])
    within = sparse.hstack([sparse.csr_matrix((np.ones(Q), (np.arange(Q), binary)), (Q, P)), -sparse.eye(Q)])
    rows = [
        LinearConstraint(loads, shards.low / shards.high, 1.0),
        LinearConstraint(once, 1.0, 1.0),
        LinearConstraint(within, -np.inf, 0.0),
    ]
    if memory:
        count = sparse.hstack([sparse.csr_matrix((M, P)), sparse.kron(eye, np.ones((1, N)))])
        rows.append(LinearConstraint(count, 0, MEMORY))
    result = milp(
        np.append(np.zeros(P), (~placed[binary]).astype(float)),
        constraints=rows,
        bounds=Bounds(0, 1),
        integrality=np.append(np.zeros(P), np.ones(Q)),
        options={"time_limit": limit, "mip_rel_gap": 0.0},
    )
    bound = 0.0 if result.mip_dual_bound is None else float(np.ceil(result.mip_dual_bound - 1e-6))
    if result.x is None:
        return None, bound
    chosen = placed.copy()
    chosen[binary] = result.x[P:] > 0.5
    shares = np.where(chosen & (result.x[:P] > 1e-9), result.x[:P], 0.0).reshape(M, N)
    return shares / shares.sum(axis=0), bound


def relaxed_optimum(shards: Shards) -> float:
    """The fewest moves where shares of a replica count as shares of a move, by HiGHS; without memory, a lower bound."""
    from scipy import sparse
    from scipy.optimize import linprog

    M, N = shards.placed.shape
    loads = sparse.kron(sparse.eye(M), shards.load[None] / shards.high).tocsr()
    band = np.append(np.ones(M), np.full(M, -shards.low / shards.high))
    once = sparse.kron(np.ones((1, M)), sparse.eye(N))
    cost = (~shards.placed).ravel().astype(float)
    rows = sparse.vstack([loads, -loads])
    return float(linprog(cost, A_ub=rows, b_ub=band, A_eq=once, b_eq=np.ones(N), bounds=(0, 1), method="highs").fun)


def to_relaxed(shards: Shards, states: Iterator[State], optimum: float) -> tuple[int, State]:
    """Iterations until shares or their average are that good and in the band, up to `CLOSE`; and the state there."""
    mean = 0.5 * (shards.low + shards.high)
    for done, state in enumerate(islice(states, MOST), 1):
        for shares in (state.z, state.average().z):
            load = shares @ shards.load
            outside = max(float((load - shards.high).max()), float((shards.low - load).max())) / mean
            if outside <= CLOSE and float(shares[~shards.placed].sum()) <= optimum + CLOSE * max(optimum, 1.0):
                return done, state
    return MOST, state


def pop(shards: Shards, parts: int, limit: float, rng: np.random.Generator) -> np.ndarray:
    """POP: random groups of servers, each with the shards that lie there, solved alone and put together."""
    shares = shards.placed / shards.placed.sum(axis=0)
    home = shards.placed.argmax(axis=0)
    for group in np.array_split(rng.permutation(len(shares)), parts):
        own = np.flatnonzero(np.isin(home, group))
        at = np.ix_(group, own)
        found, _ = exact(Shards(shards.load[own], shards.placed[at], shards.low, shards.high), limit)
        if found is not None:  # a group whose mean load is outside the band has no plan of its own
            shares[:, own] = 0.0
            shares[at] = found
    return shares


@dataclass
class Run:
    """One solver on one round: moves over CPU seconds, the plan that the last of them is of, the state at the end."""

    trace: list[tuple[int, float, int]]  # iteration, CPU seconds, fewest moves so far
    best: np.ndarray
    state: State | None = None

    def at(self, seconds: float) -> float:
        """Fewest moves after so many seconds; inf before the first plan."""
        return min((count for _, spent, count in self.trace if spent <= seconds), default=np.inf)


def search(shards: Shards, states: Iterator[State], iterations: int = ITERATIONS, looks: set[int] | None = None) -> Run:
    """Iterate, repair now and then, finish the best plan."""
    best, fewest, trace = shards.placed / shards.placed.sum(axis=0), np.inf, []
    begin = time.process_time()
    for count, state in enumerate(islice(states, iterations), 1):
        if count not in (looks or LOOKS):
            continue
        for point in (state.z, state.average().z):
            plan = repaired(shards, point)
            if (now := moves(shards, plan)) < fewest:
                best, fewest = plan, now
        trace.append((count, time.process_time() - begin, int(fewest)))
    return Run(trace, best, state)


def finished(shards: Shards, run: Run) -> Run:
    """The run with its best plan finished, as the last point of its trace; its last shares are tried as well."""
    points = [run.best] if run.state is None else [run.best, run.state.z, run.state.average().z]

    def fewest() -> np.ndarray:
        return min((run.best, *(planned(shards, each) for each in points)), key=lambda plan: moves(shards, plan))

    plan, seconds = timed(fewest)
    done, spent, _ = run.trace[-1]
    return Run([*run.trace, (done, spent + seconds, moves(shards, plan))], plan, run.state)


@dataclass
class Round:
    """Runs by name, each finished; HiGHS's bound of the moves; iterations to the relaxation's optimum.

    Cold, penalty and joint solve the round itself, and warm does after the round before it, whose loads were drawn
    apart from its own. Cold and warm again: the same placement under loads of which u has changed by 5 %, warm from
    where the relaxation of the round was solved.
    """

    seed: int
    runs: dict[str, Run] = field(default_factory=dict)
    bound: float = 0.0
    iterations: dict[str, int] = field(default_factory=dict)

    def optimum(self) -> int:
        """The fewest moves known."""
        return min(run.trace[-1][2] for run in self.runs.values())


def run(seed: int, scale: float, rounds: int, limit: float, advance: Callable[[], None]) -> list[Round]:
    """Rounds of one seed; the placement goes on from ADMM's plan of the round before, started warm."""
    rng, numbers = np.random.default_rng([seed, 33]), published_numbers(seed)
    placed, found, state = first_placement(scale), [], None
    for number in range(-WARM_UP, rounds):
        u = next(numbers)
        shards = instance(placed, u)
        starts = {"cold": Balance(shards).cold()}
        starts["warm"] = starts["cold"] if state is None else state
        ours = finished(shards, search(shards, iterate(Balance(shards), starts["warm"])))
        if number >= 0:
            this, last = solved(seed, shards, starts, limit, rng)
            this.runs["admm, warm"] = ours
            near = instance(placed, 0.95 * u + 0.05 * rng.random())
            optimum = relaxed_optimum(near)
            for name, start in {"cold": Balance(near).cold(), "warm": last}.items():
                this.iterations[f"{name} again"], _ = to_relaxed(near, iterate(Balance(near), start), optimum)
            found.append(this)
            advance()
        placed, state = ours.best > 0, ours.state
    return found


def solved(
    seed: int, shards: Shards, starts: dict[str, State], limit: float, rng: np.random.Generator
) -> tuple[Round, State]:
    """One round by everything but ADMM started warm; and where ADMM, started cold, has solved the relaxation."""
    this, optimum, last = Round(seed), relaxed_optimum(shards), starts["cold"]
    solvers = {"admm, cold": iterate, "penalty": penalty, "joint": joint}
    for name, solver in solvers.items():
        this.runs[name] = finished(shards, search(shards, solver(Balance(shards), starts["cold"])))
        this.iterations[name], state = to_relaxed(shards, solver(Balance(shards), starts["cold"]), optimum)
        last = state if name == "admm, cold" else last
    this.iterations["admm, warm"], _ = to_relaxed(shards, iterate(Balance(shards), starts["warm"]), optimum)
    still = shards.placed / shards.placed.sum(axis=0)
    (plan, this.bound), seconds = timed(lambda: exact(shards, limit))
    plan = still if plan is None else plan
    this.runs["exact"] = Run([(0, seconds, moves(shards, plan))], plan)
    for name, shares in (("POP-4", lambda: pop(shards, 4, limit / 4, rng)), ("repair alone", lambda: still)):
        plan, seconds = timed(lambda shares=shares: repaired(shards, shares()))
        this.runs[name] = finished(shards, Run([(0, seconds, moves(shards, plan))], plan))
    return this, last


def report(rounds: list[Round], scale: float, limit: float) -> list[Requirement]:
    """The table over seeds, and what was to be reached."""
    from rich.table import Table

    seeds = sorted({each.seed for each in rounds})
    own = [[each for each in rounds if each.seed == seed] for seed in seeds]
    what = f"{NAME}: {scale:g} of the published size, seeds {seeds[0]}-{seeds[-1]}, {len(own[0])} rounds each"
    table = Table(title=f"{what}, per round: median (range)")
    for column in (
        "solver",
        "moves, repaired",
        "CPU s",
        "moves, finished",
        "CPU s",
        "iterations to the relaxation's 0.99",
    ):
        table.add_column(column, justify="left" if column == "solver" else "right")

    def means(value: Callable[[Round], float]) -> list[float]:
        return [float(np.mean([value(each) for each in rounds])) for rounds in own]

    for name in ("exact", "POP-4", "repair alone", "admm, cold", "admm, warm", "penalty", "joint"):
        cells = []
        for at in (-1,) if name == "exact" else (-2, -1):
            for of, form in ((2, "{:.1f}"), (1, "{:.2f}")):
                cells.append(spread(means(lambda r, n=name, a=at, o=of: r.runs[n].trace[a][o]), form))
        count = spread(means(lambda r, n=name: r.iterations[n]), "{:.0f}") if name in rounds[0].iterations else ""
        table.add_row(name, *[""] * (4 - len(cells)), *cells, count)
    show(table)
    show(
        f"  HiGHS has {limit:g} s a round; its bound proves the fewest moves known in "
        f"{sum(r.bound >= r.optimum() for r in rounds)} of {len(rounds)} rounds, and is "
        f"{sum(r.optimum() - r.bound for r in rounds):g} lower in all of the others together"
    )
    return [*_quality(own), *_iterations(own)]


def _quality(own: list[list[Round]]) -> Iterator[Requirement]:
    """Fewest moves known over a solver's, per seed: of ADMM at the end, and against POP in the time that POP takes."""

    def quality(rounds: list[Round], name: str, like: int | None) -> float:
        best = sum(each.optimum() for each in rounds)
        until = [np.inf if like is None else each.runs["POP-4"].trace[like][1] for each in rounds]
        count = sum(each.runs[name].at(seconds) for each, seconds in zip(rounds, until, strict=True))
        return 1.0 if best == count else float(best / count)

    ours = [quality(rounds, "admm, cold", None) for rounds in own]
    yield Requirement(NAME, f"admm, share of exact >= {GOAL}", ours, GOAL)
    for label, like in (("both repaired", -2), ("both finished", -1)):
        leads = [quality(rounds, "admm, cold", like) - quality(rounds, "POP-4", like) for rounds in own]
        yield Requirement(NAME, f"admm minus POP-4 in POP-4's time > 0, {label}", leads, 0.0, np.greater)


def _iterations(own: list[list[Round]]) -> Iterator[Requirement]:
    for what, one, other, goal in (
        ("warm / cold iterations < 0.5, u changed by 5 %", "warm again", "cold again", 0.5),
        ("warm / cold iterations, u drawn anew as published", "admm, warm", "admm, cold", None),
        ("iterations, penalty / admm", "penalty", "admm, cold", None),
        ("iterations, joint / admm", "joint", "admm, cold", None),
    ):
        sums = [[sum(each.iterations[name] for each in rounds) for name in (one, other)] for rounds in own]
        yield Requirement(NAME, what, [upper / lower for upper, lower in sums], goal, np.less)


def plot(rounds: list[Round], path: Path) -> None:
    """Moves over CPU time of the repaired plans, means over rounds; the finish as a dashed line."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    colours = {"admm, warm": "C0", "admm, cold": "C9", "penalty": "C1", "joint": "C2"}
    labels = {"penalty": "penalty method", "joint": "joint augmented Lagrangian"}
    for name, colour in colours.items():
        _, seconds, count = np.array([r.runs[name].trace for r in rounds], float).mean(axis=0).T
        axes.plot(seconds[:-1], count[:-1], color=colour, marker=".", ms=4, label=labels.get(name, name))
        axes.plot(seconds[-2:], count[-2:], color=colour, ls="--", marker="v", ms=5)
    for name, marker, colour in (("POP-4", "s", "C3"), ("repair alone", "^", "C7")):
        _, seconds, count = np.array([r.runs[name].trace for r in rounds], float).mean(axis=0).T
        axes.plot(seconds, count, color=colour, ls="--", marker=marker, ms=6, label=name)
    _, seconds, count = np.mean([r.runs["exact"].trace[-1] for r in rounds], axis=0)
    axes.scatter(seconds, count, marker="*", color="black", s=70, label="HiGHS", zorder=3)
    fewest = np.mean([r.optimum() for r in rounds])
    axes.axhline(fewest, color="grey", lw=0.8, ls=":", label="fewest known")
    axes.set(xscale="log", xlabel="CPU seconds per round", ylabel="moves per round", title=NAME)
    axes.set_ylim(bottom=0)
    figure.legend(fontsize=8, loc="outside right upper")
    figure.savefig(path, dpi=150)
    plt.close(figure)


@dataclass
class Published:
    """The published set-up under one rule: moves and CPU seconds of each round, and which rounds broke a limit."""

    moves: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    broken: int = 0


def rounds_by(seed: int, rule: str, scale: float) -> Iterator[tuple[Shards, Run, np.ndarray]]:
    """Rounds without end: the shards, ADMM's plan of them, started warm, and the replicas that a rule carries on.

    `strict` is `idle` with load on every replica: the plan keeps a band narrower by `WHIT`, so that `all_in_use` may
    give each idle replica some.
    """
    numbers, placed, state = published_numbers(seed), first_placement(scale), None
    looks = {ITERATIONS_PUBLISHED // 2, ITERATIONS_PUBLISHED}
    while True:
        shards = instance(placed, next(numbers))
        inner = narrower(shards) if rule == "strict" else shards
        blocks = Balance(inner)
        states = iterate(blocks, blocks.cold() if state is None else state)
        run = finished(inner, search(inner, states, ITERATIONS_PUBLISHED, looks))
        placed, state = kept(shards, run.best, "used" if rule == "used" else "idle"), run.state
        yield shards, run, placed


def published_rounds(
    seed: int, rule: str, scale: float, rounds: tuple[int, int], advance: Callable[[], None]
) -> Published:
    """Moves, CPU seconds and broken limits of some rounds, after others to warm up."""
    found = Published()
    for number, (shards, run, held) in enumerate(islice(rounds_by(seed, rule, scale), sum(rounds))):
        if number >= rounds[0]:
            shares = all_in_use(run.best, held) if rule == "strict" else run.best
            found.moves.append(int((held & ~shards.placed).sum()))
            found.seconds.append(run.trace[-1][1])
            found.broken += broken(shards, shares) or bool((held.sum(axis=1) > MEMORY).any())
        advance()
    return found


def narrower(shards: Shards) -> Shards:
    """The round with a band that is narrower by `WHIT` of the mean load at both ends."""
    whit = WHIT * 0.5 * (shards.low + shards.high)
    return Shards(shards.load, shards.placed, shards.low + whit, shards.high - whit)


def published(seed: int, scale: float) -> None:
    """Moves by what a round leaves to the next; then solvers on the same placements, which moves of runs are not."""
    from rich.table import Table

    table = Table(title=f"{NAME}, {PUBLISHED[1]} rounds after {PUBLISHED[0]} to warm up, by which replicas stay")
    for column in ("replicas that stay", "moves a round", "CPU s a round", "rounds broken"):
        table.add_column(column, justify="left" if column.startswith("replicas") else "right")
    with progress(f"{NAME}, published size", len(RULES) * sum(PUBLISHED)) as advance:
        for rule, what in RULES.items():
            run = published_rounds(seed, rule, scale, PUBLISHED, advance)
            table.add_row(what, f"{np.mean(run.moves):.2f}", f"{np.mean(run.seconds):.2f}", str(run.broken))
    show(table)
    show("  published, by a rule that is not stated: DeDe 20.1, exact 20.9, POP-4 21.5, POP-16 26, E-Store 73")
    common_placements(seed, scale)


def common_placements(seed: int, scale: float) -> None:
    """Solvers on the placements of the rule `used`, each round by each: what a run moves is its placements' doing."""
    from rich.table import Table

    rng, counts = np.random.default_rng([seed, 34]), dict[str, list[int]]()
    with progress(f"{NAME}, common placements", COMMON[1]) as advance:
        for number, (shards, ours, _) in enumerate(islice(rounds_by(seed, "used", scale), COMMON[1])):
            if number >= COMMON[0]:
                still = shards.placed / shards.placed.sum(axis=0)
                plans = {"ADMM, finished": ours.best, "repair alone, finished": planned(shards, still),
                         "POP-16, finished": planned(shards, pop(shards, 16, POP_SECONDS / 16, rng))}  # fmt: skip
                for name, plan in plans.items():
                    counts.setdefault(name, []).append(moves(shards, plan))
            advance()
    table = Table(title=f"{NAME}, rounds {COMMON[0]}-{COMMON[1] - 1} on common placements")
    table.add_column("solver")
    table.add_column("moves a round", justify="right")
    for name, own in counts.items():
        table.add_row(name, f"{np.mean(own):.1f}")
    show(table)


def main(argv: list[str] | None = None) -> list[Requirement]:
    more = (
        ("--limit", {"type": float, "default": 15.0, "help": "seconds of HiGHS per round"}),
        ("--published", {"action": "store_true", "help": "only ADMM, at the published size"}),
    )
    options = parsed(__doc__ or "", argv, scale=1 / 8, rounds=3, quick_scale=1 / 32, more=more)
    if options.published:
        published(options.first, 1.0)
        return []
    rounds = []
    with progress(NAME, len(options.seeds) * options.rounds) as advance:
        for seed in options.seeds:
            rounds += run(seed, options.scale, options.rounds, options.limit, advance)
    if options.out:
        results = [{"seed": r.seed, "traces": {name: each.trace for name, each in r.runs.items()}} for r in rounds]
        saved(options.out, NAME, results, lambda path: plot(rounds, path))
    return report(rounds, options.scale, options.limit)


if __name__ == "__main__":
    if found := main():
        verdicts(found)
