"""Traffic engineering on the ADMM core: demands between pairs of nodes, each split over its few shortest paths.

    max Σ f,  Σ_{p of j} f_p <= d_j    or    min U,  Σ_{p of j} f_p = d_j;    Σ_{p over l} f_p <= c_l (U c_l),  f >= 0

A link is a resource, a pair of nodes is a demand. A link's copy of a path's flow is f_p / sqrt(links of p): then every
path weighs the same in a demand's step, which is a projection on the simplex. The topology is random and scale-free,
traffic follows a gravity model with log-normal noise: DeDe's traffic is private [Xu2025]_.
Usage: python -m benchmarks.dede.traffic [--quick] [--scale S] [--out DIR]

.. [Xu2025] Xu, Yu, Yan, DeDe, OSDI '25, arXiv:2412.11447.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.dede.study import Case, Part, Requirement, program, verdicts
from mfcp.matching.decomposition.alternating_directions import State, project_simplex

NODES, PAIRS = 1739, 24000  # published: 1,739 nodes, 8,558 links; the number of pairs is ours
PATHS = 4
LOAD = 1.0  # of the network: the busiest link's use if everything went over shortest paths, over its typical capacity


@dataclass(frozen=True)
class Network:
    """c (L,) capacities, d (J,) demands, and which links each path takes.

    Attributes:
        path: (J, PATHS) length in links of each path, 0 where a pair has fewer.
        links: (E,) link of each entry, grouped by path in order.
        owner: (E,) path (demand · PATHS + number) of each entry.
    """

    c: np.ndarray
    d: np.ndarray
    path: np.ndarray
    links: np.ndarray
    owner: np.ndarray


def scale_free(nodes: int, rng: np.random.Generator, each: int = 2) -> np.ndarray:
    """(K, 2) edges of a Barabasi-Albert graph: every new node joins `each` old ones, well-connected ones first."""
    edges = [(a, b) for a in range(each + 1) for b in range(a)]
    ends = [node for edge in edges for node in edge]
    for new in range(each + 1, nodes):
        targets: set[int] = set()
        while len(targets) < each:
            targets.add(int(ends[rng.integers(len(ends))]))
        edges += [(new, old) for old in sorted(targets)]
        ends += [node for old in sorted(targets) for node in (new, old)]
    return np.array(edges)


def with_more(edges: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 2) the edges, and further ones between nodes as likely as they are well-connected."""
    have, ends = {(int(a), int(b)) for a, b in edges}, edges.ravel()
    found = [*map(tuple, edges.tolist())]
    while len(found) < count:
        a, b = (int(end) for end in ends[rng.integers(len(ends), size=2)])
        edge = (max(a, b), min(a, b))
        if a != b and edge not in have:
            have.add(edge)
            found.append(edge)
    return np.array(found)


def draw(seed: int, scale: float, links: int | None = None) -> Network:
    """A network and its demands; with so many links, else with as many as the graph of two edges a node has."""
    from scipy import sparse
    from scipy.sparse.csgraph import yen

    rng = np.random.default_rng([seed, 32])
    nodes, pairs = max(round(NODES * scale), 8), max(round(PAIRS * scale), 16)
    edges = scale_free(nodes, rng)
    if links is not None:
        edges = with_more(edges, links // 2, rng)
    both = np.concatenate([edges, edges[:, ::-1]])
    number = {(int(a), int(b)): at for at, (a, b) in enumerate(both)}
    length = np.repeat(rng.uniform(1.0, 1.2, len(edges))[None], 2, 0).ravel()  # breaks ties between equal hop counts
    graph = sparse.csr_matrix((length, both.T), (nodes, nodes))
    weight = rng.lognormal(0, 1.0, nodes)
    chance = np.outer(weight, weight) * (1 - np.eye(nodes))
    chosen = rng.choice(nodes**2, min(pairs, nodes * (nodes - 1)), replace=False, p=(chance / chance.sum()).ravel())
    lengths, links, owner = np.zeros((len(chosen), PATHS), int), [], []
    for j, (source, sink) in enumerate(zip(*np.unravel_index(chosen, (nodes, nodes)), strict=True)):
        _, before = yen(graph, int(source), int(sink), PATHS, return_predecessors=True)
        for p, row in enumerate(before):
            at, hops = int(sink), []
            while at != source:
                hops.append(number[int(row[at]), at])
                at = int(row[at])
            lengths[j, p] = len(hops)
            links += hops
            owner += [j * PATHS + p] * len(hops)
    d = chance.ravel()[chosen] * rng.lognormal(0, 0.5, len(chosen))
    c = 2.0 ** rng.integers(0, 4, len(both))
    network = Network(c, d, lengths, np.array(links), np.array(owner))
    shortest = network.owner % PATHS == 0
    load = np.bincount(network.links[shortest], d[network.owner[shortest] // PATHS], minlength=len(c))
    return replace(network, d=d * LOAD / np.quantile(load / c, 0.9))


def churn(network: Network, share: float, rng: np.random.Generator) -> tuple[Network, np.ndarray]:
    """The next interval: a share of the pairs has a new demand, drawn from the others' sizes."""
    which = rng.choice(len(network.d), max(1, round(share * len(network.d))), replace=False)
    d = network.d.copy()
    d[which] = rng.choice(network.d, len(which)) * rng.lognormal(0, 0.5, len(which))
    return replace(network, d=d), which


def split(network: Network, parts: int, rng: np.random.Generator) -> list[Part]:
    """POP's parts: random pairs, every link's capacity divided."""
    return [
        (chosen(replace(network, c=network.c / parts), own), own)
        for own in np.array_split(rng.permutation(len(network.d)), parts)
    ]


def chosen(network: Network, pairs: np.ndarray) -> Network:
    """The same links with some of the pairs."""
    new = np.full(len(network.d), -1)
    new[pairs] = np.arange(len(pairs))
    kept = new[network.owner // PATHS] >= 0
    owner = new[network.owner[kept] // PATHS] * PATHS + network.owner[kept] % PATHS
    order = np.argsort(owner, kind="stable")
    return Network(network.c, network.d[pairs], network.path[pairs], network.links[kept][order], owner[order])


class Flows:
    """What both objectives share; a point is (E,) entries, with a level per link after them for utilisation."""

    start_rho = 1.0

    def __init__(self, network: Network) -> None:
        self.network, self.exists = network, network.path > 0
        J, L = len(network.d), len(network.c)
        self.hops = np.sqrt(network.path.ravel()[network.owner])  # (E,) of each entry's path
        self.row = self.hops / network.c[network.links]  # (E,) share of its link that an entry's unit takes
        self.gram = np.bincount(network.links, self.row**2, minlength=L)
        self.unit = float(np.median(network.d))  # flows are counted in typical demands
        self.d = network.d / self.unit
        self.paths, self.size = J * PATHS, (J, PATHS)

    def used(self, entries: np.ndarray) -> np.ndarray:
        """(L,) share of each link's capacity that the entries take."""
        return self.unit * np.bincount(self.network.links, self.row * entries, minlength=len(self.network.c))

    def gathered(self, entries: np.ndarray) -> np.ndarray:
        """(J, PATHS) flow of each path, the mean over its links' copies; -inf where there is no path."""
        flow = np.bincount(self.network.owner, entries / self.hops, minlength=self.paths).reshape(self.size)
        return np.where(self.exists, flow, -np.inf)

    def spread(self, flow: np.ndarray) -> np.ndarray:
        """(E,) copies of paths' flows."""
        return flow.ravel()[self.network.owner] / self.hops

    def flow(self, point: np.ndarray) -> np.ndarray:
        """(J, PATHS) nonnegative flows within the demands, in units of the network."""
        flow = self.gathered(point[: len(self.hops)])
        return self.unit * project_simplex(np.maximum(flow, 0.0) - 1e300 * ~self.exists, self.d, inside=True)

    def load(self, flow: np.ndarray) -> np.ndarray:
        """(L,) share of each link's capacity that paths' flows take."""
        network = self.network
        return np.bincount(network.links, flow.ravel()[network.owner], minlength=len(network.c)) / network.c

    def carried(self, state: State, renewed: np.ndarray) -> State:
        """A state for the next round: as it is, the first step cuts flows to the new demands."""
        return state


class TotalFlow(Flows):
    """Links cut what is over their capacity; every path of a demand wants one more unit."""

    def cold(self) -> State:
        z = self.spread(np.where(self.exists, (self.d / self.exists.sum(axis=1))[:, None], 0.0))
        return State(z, np.zeros_like(z), self.start_rho)

    def resource_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        over = np.maximum(self.used(point) - 1.0, 0.0) / (self.unit * np.maximum(self.gram, 1e-300))
        return point - self.row * over[self.network.links]

    def demand_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        return self.spread(project_simplex(self.gathered(point) + 1.0 / rho, self.d, inside=True))

    def repaired(self, point: np.ndarray) -> np.ndarray:
        """(J, PATHS) feasible flow: paths cut by their worst link, then filled by what their links have left."""
        flow, count = self.flow(point), self.exists.sum(axis=1)
        for _ in range(3):
            flow = flow / np.maximum(self.worst(self.load(flow)), 1.0)
            # every path grows by what its links have left, shared by need; never beyond its demand
            wanted = np.where(self.exists, ((self.network.d - flow.sum(axis=1)) / count)[:, None], 0.0)
            room = np.maximum(1.0 - self.load(flow), 0.0)
            need = self.load(wanted)
            share = np.minimum(room / np.maximum(need, 1e-300), 1.0)
            flow = flow + wanted * self.least(share)
        return flow

    def worst(self, links: np.ndarray) -> np.ndarray:
        """(J, PATHS) the largest value along each path, 0 where there is none."""
        result = np.zeros(self.paths)
        np.maximum.at(result, self.network.owner, links[self.network.links])
        return result.reshape(self.size)

    def least(self, links: np.ndarray) -> np.ndarray:
        """(J, PATHS) the smallest value along each path."""
        result = np.ones(self.paths)
        np.minimum.at(result, self.network.owner, links[self.network.links])
        return result.reshape(self.size)

    def quality(self, point: np.ndarray) -> float:
        return float(self.repaired(point).sum())


class Utilisation(Flows):
    """Every link has a copy of the level, which its use may not exceed; the demands' side agrees on one level."""

    start_rho = 0.01

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.scale = 1.0 / float(np.sqrt(self.gram[self.gram > 0]).mean())  # rows have norm 1 on average

    def cold(self) -> State:
        z = self.spread(np.where(self.exists, (self.d / self.exists.sum(axis=1))[:, None], 0.0))
        z = np.append(z, np.full(len(self.network.c), (self.used(z) / self.unit * self.scale).mean()))
        return State(z, np.zeros_like(z), self.start_rho)

    def resource_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        entries, level = point[: len(self.hops)], point[len(self.hops) :]
        excess = self.used(entries) / self.unit * self.scale - level
        over = np.maximum(excess, 0.0) / (self.gram * self.scale**2 + 1.0)
        return np.append(entries - self.scale * self.row * over[self.network.links], level + over)

    def demand_step(self, point: np.ndarray, rho: float) -> np.ndarray:
        entries, level = point[: len(self.hops)], point[len(self.hops) :]
        flow = project_simplex(self.gathered(entries), self.d)
        return np.append(self.spread(flow), np.full(len(level), level.mean() - 1.0 / (rho * len(level))))

    def quality(self, point: np.ndarray) -> float:
        """1 / U after every demand's flows are scaled to it."""
        flow = self.flow(point)
        sent = flow.sum(axis=1, keepdims=True)
        even = np.where(self.exists, 1.0 / self.exists.sum(axis=1, keepdims=True), 0.0)
        flow = np.where(sent > 0, flow / np.maximum(sent, 1e-300), even) * self.network.d[:, None]
        return 1.0 / float(self.load(flow).max())


def exact(network: Network, *, utilisation: bool) -> np.ndarray:
    """(E,) entries of an optimal flow, by HiGHS."""
    from scipy import sparse
    from scipy.optimize import linprog

    kept, blocks = np.flatnonzero(network.path.ravel()), Flows(network)
    column = np.full(blocks.paths, -1)
    column[kept] = np.arange(len(kept))
    J, L, P = len(network.d), len(network.c), len(kept)
    over = sparse.csr_matrix((1.0 / network.c[network.links], (network.links, column[network.owner])), (L, P))
    of = sparse.csr_matrix((np.ones(P), (kept // PATHS, np.arange(P))), (J, P))
    if utilisation:
        result = linprog(
            np.append(np.zeros(P), 1.0),
            A_ub=sparse.hstack([over, -np.ones((L, 1))]).tocsr(),
            b_ub=np.zeros(L),
            A_eq=sparse.hstack([of, np.zeros((J, 1))]).tocsr(),
            b_eq=network.d,
            method="highs",
        )
    else:
        both = sparse.vstack([over, of]).tocsr()
        result = linprog(-np.ones(P), A_ub=both, b_ub=np.append(np.ones(L), network.d), method="highs")
    flow = np.zeros(blocks.paths)
    flow[kept] = result.x[:P] / blocks.unit
    return blocks.spread(flow)


def merge(points: list[np.ndarray], parts: list[Part], blocks: Flows) -> np.ndarray:
    """The parts' flows put together."""
    flow = np.zeros(blocks.size)
    for point, (network, own) in zip(points, parts, strict=True):
        part = Flows(network)
        flow[own] = np.where(part.exists, part.gathered(point), 0.0) * part.unit / blocks.unit
    return blocks.spread(flow)


CASES = [
    Case(
        "traffic, total flow",
        draw,
        churn,
        split,
        lambda network: exact(network, utilisation=False),
        TotalFlow,
        merge,
    ),
    Case(
        "traffic, link utilisation",
        draw,
        churn,
        split,
        lambda network: exact(network, utilisation=True),
        Utilisation,
        merge,
    ),
]


def main(argv: list[str] | None = None) -> list[Requirement]:
    return program(__doc__ or "", CASES, argv, scale=1 / 12, rounds=3, quick_scale=1 / 40)


if __name__ == "__main__":
    verdicts(main())
