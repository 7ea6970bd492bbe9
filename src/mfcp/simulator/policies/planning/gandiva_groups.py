"""Gandiva's groups of nodes: jobs of one size take turns on the nodes of their size, which grow and shrink."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Bools, Ints
from mfcp.errors import SettingsError
from mfcp.simulator.policies.deciding import Allotment, Decider, Deciding, Demand


class GandivaGroups(Deciding):
    """Nodes are set aside for jobs of one size; those that share a group take turns on it.

    A job joins the least loaded group of its size that has a place, else takes free nodes, else waits for its turns in
    the least loaded one. At every decision each size grows or shrinks towards its part of all accelerators that jobs
    ask for. Xiao et al., "Gandiva: introspective cluster scheduling for deep learning", OSDI 2018, §3: time slicing,
    migration, growth and shrinking; packing needs what `gandiva` is told of pairs.
    """

    name: ClassVar[str] = "gandiva_groups"
    instead: ClassVar[str] = "gandiva"
    turn_s: float = Field(60.0, gt=0, description="turns change at decisions on a multiple of so many seconds")
    published: bool = Field(
        False, description="as the simulator of Gu et al., ASPLOS 2023, has it: a group keeps a place empty, loads"
        " count jobs that are gone until all are dealt anew, a size grows and shrinks by groups as if each were for one"
        " job, growth deals anew only where a group failed or is of several nodes, and jobs that wait ask for nothing",
    )  # fmt: skip

    def start(self) -> Decider:
        """It remembers who is where."""
        return _Groups(self)


@dataclass
class _Group:
    """Accelerators of nodes for jobs of one size, how many run there at once, who is there in turn, and the load."""

    nodes: list[int]
    places: int
    jobs: list[int] = field(default_factory=list)
    load: int = 0


class _Groups:
    """The groups of one run, by size, each size's in order of load; the nodes that are in none; the last turn."""

    def __init__(self, policy: GandivaGroups) -> None:
        self.policy, self.of_size = policy, dict[int, list[_Group]]()
        self.free, self.turn = list[int](), -1

    def admit(self, demand: Demand, new: Bools) -> Bools:
        """All."""
        return new

    def decide(self, demand: Demand) -> Allotment:
        """Whose turn it is: as many of each group as it has places."""
        if self.turn < 0:
            self.free = sorted(demand.nodes.tolist())
        self._take_turns(demand)
        there = {job for groups in self.of_size.values() for group in groups for job in group.jobs}
        new = [each for each in zip(demand.job.tolist(), demand.asked.tolist(), strict=True) if each[0] not in there]
        waiting = [(job, size) for job, size in new if not self._place(job, size)]
        self._adjust(int(demand.nodes.sum()), [] if self.policy.published else waiting)
        groups = [group for groups in self.of_size.values() for group in groups]
        runs = np.isin(demand.job, [job for group in groups for job in group.jobs[: group.places]])
        own = self._as_asked(demand)
        turn_s, waits = self.policy.turn_s, any(len(group.jobs) > group.places for group in groups)
        wake = (math.floor(demand.now / turn_s + 1e-9) + 1) * turn_s if waits else np.inf
        return Allotment(np.where(runs, own, -1), wake)

    def _as_asked(self, demand: Demand) -> Ints:
        """(k,) the configuration of each job that has the accelerators it asks for."""
        rate = demand.rate * (demand.gpus == demand.asked[:, None])
        for gpus in demand.asked[rate.max(axis=1) <= 0][:1]:
            raise SettingsError(
                f"policy '{self.policy.name}' runs jobs on as many accelerators as they ask for; a job asks for {gpus},"
                " and no configuration of it has so many: add one, or take another policy"
            )
        return np.asarray(rate.argmax(axis=1))

    def _take_turns(self, demand: Demand) -> None:
        """Who has run goes behind the others; jobs that have ended leave, and groups without jobs give back nodes."""
        present, turns = set(demand.job.tolist()), demand.now / self.policy.turn_s
        changes = abs(turns - round(turns)) < 1e-9 and round(turns) > self.turn
        self.turn = round(turns) if changes else max(self.turn, 0)
        for size in sorted(self.of_size):
            for group in self.of_size[size]:
                if changes and len(group.jobs) > group.places:
                    group.jobs = group.jobs[group.places :] + group.jobs[: group.places]
                group.jobs = [job for job in group.jobs if job in present]
                if not group.jobs:
                    self._give_back(group)
                group.load = group.load if self.policy.published else len(group.jobs)
            left = [group for group in self.of_size[size] if group.jobs]
            self.of_size[size] = left if self.policy.published else sorted(left, key=_load)

    def _place(self, job: int, size: int) -> bool:
        """In a group, on free nodes, or in turn with others; a job of a size that has none of these waits."""
        groups, published = self.of_size.setdefault(size, []), self.policy.published
        roomy = groups and groups[0].load + published < groups[0].places
        if groups and (roomy or published):
            groups.append(groups.pop(0))
        if roomy or self._group(size):
            _join(groups, job, groups[-1])
        elif groups:
            _join(groups, job, groups[0])
        return bool(groups)

    def _group(self, size: int) -> bool:
        """A new last group of a size, if there are nodes: the smallest that is enough, or as few as possible."""
        nodes: list[int] = [node for node in self.free if node >= size][:1]
        for node in [] if nodes else reversed(self.free):
            nodes.append(node)
            if sum(nodes) >= size:
                break
        if sum(nodes) < size:
            return False
        for node in nodes:
            self.free.remove(node)
        self.of_size[size].append(_Group(nodes, sum(nodes) // size))
        return True

    def _give_back(self, group: _Group) -> None:
        self.free = sorted(self.free + group.nodes)

    def _adjust(self, total: int, waiting: list[tuple[int, int]]) -> None:
        """Every size towards its part of what is asked for; then jobs that waited for nodes of their size start.

        A size gives back only groups that are wholly beyond its part, unless jobs of another have no nodes at all.
        """
        asked = {size: size * sum(len(group.jobs) for group in groups) for size, groups in self.of_size.items()}
        for _, size in waiting:
            asked[size] += size
        more: dict[int, int] = {}
        for size in sorted(size for size, count in asked.items() if count):
            wanted = min(math.floor(asked[size] / sum(asked.values()) * total), asked[size])
            more[size] = wanted - sum(sum(group.nodes) for group in self.of_size[size])
        for size in more if self.policy.published else sorted(more, key=lambda size: more[size] > 0):
            if more[size] > 0:
                self._grow(size, more[size])
            elif more[size] < 0:
                self._shrink(size, -more[size], bool(waiting))
        for job, size in waiting:
            self._place(job, size)

    def _grow(self, size: int, more: int) -> None:
        """Add groups for so many accelerators as far as there are nodes, and deal the jobs of all anew."""
        groups, made = self.of_size[size], True
        before = len(groups)
        while more > 0 and made:
            made = self._group(size)
            more -= size if self.policy.published else sum(groups[-1].nodes) if made else 0
        deals = not made or len(groups[-1].nodes) > 1 if self.policy.published else len(groups) > before
        if deals:
            jobs = [job for group in groups for job in group.jobs]
            for group in groups:
                group.jobs, group.load = [], 0
            for job in jobs:
                _join(groups, job, groups[0])

    def _shrink(self, size: int, less: int, at_least_one: bool) -> None:
        """The least loaded groups, never the last one, give back their nodes, and their jobs go to the others."""
        groups, gone = self.of_size[size], list[_Group]()
        while len(groups) > 1 and less > 0:
            own = size if self.policy.published else sum(groups[0].nodes)
            if own > less and not self.policy.published and not (at_least_one and not gone):
                break
            gone.append(groups.pop(0))
            less -= own
        for group in gone:
            self._give_back(group)
        for job in (job for group in gone for job in group.jobs):
            _join(groups, job, groups[0])


def _join(groups: list[_Group], job: int, group: _Group) -> None:
    """Add a job to one of the groups of a size."""
    group.jobs.append(job)
    group.load += 1
    groups.sort(key=_load)


def _load(group: _Group) -> int:
    return group.load
