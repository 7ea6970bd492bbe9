"""Muri: jobs that ask for the same are interleaved, so that each resource is busy with another of them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.colocating import Colocating, Colocation, Colocator, FreeNodes, Present
from mfcp.simulator.policies.stages import MOST, interleaved_s

Groups = list[list[int]]
_Kind = tuple[tuple[float, ...], ...]
GRID = 2**30  # matchings are of whole numbers
KEPT = 2_000  # kinds of groups of which this is kept


class _Muri(Colocating):
    """Jobs of one size are interleaved in groups where not all fit.

    Jobs are taken in the order of a key: for each that fits, `most` of its size. Those of a size are matched in pairs,
    and the groups matched again, until all fit: by a matching of most work per second. Groups are placed by the least
    key of their jobs. Zhao et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022, §4.2.
    """

    together: ClassVar[int] = MOST
    instead: ClassVar[str] = "gandiva"
    most: int = Field(MOST, ge=1, le=MOST, description="jobs of a group")
    slower: tuple[float, float, float] = Field(
        (1.31, 1.48, 1.35), description="what an iteration of two, three, four jobs takes over what the model says"
    )
    splits: bool = Field(True, description="whether jobs of a group that takes longer than they do in turn run apart")
    noise: float = Field(
        0.0, ge=0, description="what two groups are worth together is off by so much of it, by chance: among nearly"
        " equal matchings another is found",
    )  # fmt: skip

    def key(self, present: Present) -> Floats:
        """(k,) the order of jobs, least first."""
        raise NotImplementedError

    def start(self) -> Colocator:
        """It keeps what it has computed."""
        return _Interleaving(self)


class _Interleaving:
    """Decisions of one run."""

    def __init__(self, policy: _Muri) -> None:
        self.policy, self.most, self.cycles = policy, policy.most, _Cycles(policy.most, policy.slower)
        self.random = np.random.default_rng(round(policy.noise * GRID))

    def decide(self, present: Present) -> Colocation:
        """Group, then place."""
        key, cycles = self.policy.key(present), self.cycles
        self.policy.check_known(key)
        cycles.see(present)
        groups = self._merge(present, self._candidates(present, np.lexsort((-present.gpus, key))))
        if self.policy.splits:
            apart = [group for group in groups if cycles.seconds(group) > present.step[group].sum()]
            groups = [group for group in groups if group not in apart] + [[job] for group in apart for job in group]
        groups.sort(key=lambda group: key[group].min())
        if self.policy.splits:
            free = FreeNodes(present.node)
            groups = [group for group in groups if free.take(int(present.gpus[group[0]]))]
        groups.sort(key=lambda group: -present.gpus[group[0]])
        step, holds = np.full(len(key), np.inf), np.zeros(present.holds.shape, bool)
        overhead = np.zeros(len(key))
        for group, places in self._placed(present, groups):
            step[group], overhead[group] = cycles.seconds(group), present.overhead[group].sum()
            holds[np.ix_(group, places)] = True
        return Colocation(step, holds, overhead)

    def _candidates(self, present: Present, order: Ints) -> dict[int, list[int]]:
        """Size → jobs in order: of each size so many times `most` as fit on the cluster, taking turns by key."""
        waiting, both = dict[int, list[int]](), list(zip(order.tolist(), present.gpus[order].tolist(), strict=True))
        for job, size in both:
            waiting.setdefault(size, []).append(job)
        taken, free, seen = dict.fromkeys(waiting, 0), FreeNodes(present.node), set[int]()
        for job, size in both:
            if free.left == 0:
                break
            if job not in seen and free.take(size):
                seen.update(waiting[size][taken[size] : taken[size] + self.most])
                taken[size] = min(taken[size] + self.most, len(waiting[size]))
        return {size: jobs[: taken[size]] for size, jobs in waiting.items()}

    def _merge(self, present: Present, jobs: dict[int, list[int]]) -> Groups:
        """Match groups of each size with each other, again and again, until what they need is there."""
        groups = {size: [[job] for job in own] for size, own in jobs.items()}
        room = len(present.node) - sum(size * len(own) for size, own in groups.items())
        for _ in range(self.most):
            for size, own in groups.items():
                if room < 0 and len(own) > 1:
                    mate, merged = self._matched(own), Groups()
                    for position, group in enumerate(own):
                        other = mate.get(position, position)
                        if other == position:
                            merged.append(group)
                        elif other < position and room < 0:
                            merged.append(own[other] + group)
                            room += size
                        elif other < position:
                            merged += [own[other], group]
                    groups[size] = merged
        return [group for own in groups.values() for group in own]

    def _matched(self, groups: Groups) -> dict[int, int]:
        """Position → position of the group that it is to be merged with, both ways."""
        weight = self.cycles.worth(groups)
        if self.policy.noise:
            weight *= 1.0 + self.policy.noise * self.random.standard_normal(weight.shape)
        return heaviest_matching(weight)

    def _placed(self, present: Present, groups: Groups) -> list[tuple[list[int], list[int]]]:
        """Groups and their accelerators; each keeps what its first running member has, if all then find room."""
        free, kept = FreeNodes(present.node), list[tuple[list[int], list[int]]]()
        runs = np.asarray(present.holds.any(axis=1)).tolist()
        for group in groups:
            had = np.flatnonzero(present.holds[next((job for job in group if runs[job]), group[0])]).tolist()
            if had and free.take_those(had):
                kept.append((group, had))
        others = [group for group in groups if group not in [each for each, _ in kept]]
        kept += [(group, free.take(int(present.gpus[group[0]]))) for group in others]
        if all(places for _, places in kept):
            return kept
        free = FreeNodes(present.node)
        anew = [(group, free.take(int(present.gpus[group[0]]))) for group in groups]
        return [(group, places) for group, places in anew if places]


class _Cycles:
    """Seconds of an iteration of groups of jobs, and what two groups are worth together.

    Many jobs have the same stages: what was computed for such groups is kept, by a number for each kind of group.
    """

    def __init__(self, most: int, slower: tuple[float, ...]) -> None:
        self._most, self._slower = most, slower
        self._forget()

    def _forget(self) -> None:
        self._seconds, self._number, self._worth = dict[_Kind, float](), dict[_Kind, int](), np.full((64, 64), np.nan)

    def see(self, present: Present) -> None:
        """The jobs of this decision."""
        self._alone, self._stages = present.step, [tuple(row) for row in present.stages.tolist()]
        if len(self._number) > KEPT:
            self._forget()

    def _kind(self, group: list[int]) -> _Kind:
        """The stages of a group's jobs, ascending."""
        return tuple(sorted(self._stages[job] for job in group))

    def seconds(self, group: list[int]) -> float:
        """One iteration of each job, interleaved: nobody is faster than alone."""
        together = self._of([self._kind(group)])[0] if len(group) > 1 else 0.0
        return float(max(together, self._alone[group].max()))

    def _of(self, kinds: list[_Kind]) -> Floats:
        """(E,) seconds of groups of several jobs."""
        for count in range(2, MOST + 1):
            new = list(dict.fromkeys(each for each in kinds if len(each) == count and each not in self._seconds))
            if new:
                seconds = interleaved_s(np.array(new)) * self._slower[count - 2]
                self._seconds.update(zip(new, seconds.tolist(), strict=True))
        return np.array([self._seconds[each] for each in kinds])

    def worth(self, groups: Groups) -> Floats:
        """(g, g) above the diagonal, the work of two groups in a second together; 0 if they have too many jobs."""
        kinds = [self._kind(group) for group in groups]
        numbers = np.array([self._number.setdefault(kind, len(self._number)) for kind in kinds])
        if len(self._number) > len(self._worth):
            grown = np.full((2 * len(self._number),) * 2, np.nan)
            grown[: len(self._worth), : len(self._worth)] = self._worth
            self._worth = grown
        of, there = dict(zip(numbers.tolist(), kinds, strict=True)), np.unique(numbers)
        new = there[np.argwhere(np.triu(np.isnan(self._worth[np.ix_(there, there)])))].tolist()
        both = [tuple(sorted(of[i] + of[j])) for i, j in new]
        seconds = iter(self._of([each for each in both if len(each) <= self._most]).tolist())
        for (i, j), each in zip(new, both, strict=True):
            few = len(each) <= self._most
            self._worth[i, j] = self._worth[j, i] = sum(map(sum, each)) / next(seconds) if few else 0.0
        return np.triu(self._worth[np.ix_(numbers, numbers)], 1)


def heaviest_matching(weight: Floats) -> dict[int, int]:
    """Position → position that it is matched with, both ways, by a matching of most weight.

    Args:
        weight: (g, g) of pairs, above the diagonal; those of 0 or less are not matched.
    """
    import rustworkx

    rows, columns = np.nonzero(weight > 0)
    graph = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(weight)))
    whole = (weight[rows, columns] * (GRID / weight.max(initial=1.0))).astype(np.int64)
    graph.add_edges_from(list(zip(rows.tolist(), columns.tolist(), whole.tolist(), strict=True)))
    found = rustworkx.max_weight_matching(graph, weight_fn=int)
    return {a: b for pair in found for a, b in (pair, pair[::-1])}


class MuriS(_Muri):
    """Muri where durations are known: least accelerator-seconds left first."""

    name: ClassVar[str] = "muri_s"
    uses: ClassVar[Uses] = ("expected",)

    def key(self, present: Present) -> Floats:
        """Accelerator-seconds that are believed to be left."""
        return present.left * present.gpus


class MuriL(_Muri):
    """Muri where durations are not known: least accelerator-seconds had first."""

    name: ClassVar[str] = "muri_l"

    def key(self, present: Present) -> Floats:
        """Attained service."""
        return present.executed * present.gpus
