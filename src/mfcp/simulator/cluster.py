"""Accelerators of a cluster: nodes, and of which type each is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from mfcp.arrays import Ints
from mfcp.errors import SettingsError

_DIGITS = 6
_PART = re.compile(r"(?:(?P<type>[A-Za-z][\w-]*):)?(?:(?P<nodes>\d+)x)?(?P<gpus>\d+)")


PLENTY = 1 << 40


@dataclass(frozen=True)
class Cluster:
    """L nodes of K types.

    Attributes:
        size: (L,) accelerators of a node.
        type: (L,) index of its type.
        types: K names.
        cpu, memory: (L,) thousandths of a core and MiB of a node; more than anyone asks for, if unknown.
    """

    size: Ints
    type: Ints
    types: tuple[str, ...] = ("gpu",)
    cpu: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    memory: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        """Fill in what was left out."""
        for name in ("cpu", "memory"):
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, np.full(len(self.size), PLENTY))

    @property
    def accelerators(self) -> int:
        """How many there are."""
        return int(self.size.sum())

    @property
    def by_type(self) -> Ints:
        """(K,) accelerators of each type."""
        return np.bincount(self.type, self.size, len(self.types)).astype(np.int64)

    def largest(self) -> int:
        """The most accelerators that one job can hold: those of one type."""
        return int(self.by_type.max())

    @staticmethod
    def parse(text: str) -> Cluster:
        """A cluster from words: `64`, one pool; `8x8`, eight nodes of eight; `v100:9x4,k80:36`, two types.

        Raises:
            SettingsError: other words, or a size of zero.
        """
        sizes, kinds, names = list[int](), list[int](), list[str]()
        for part in text.split(","):
            found = _PART.fullmatch(part.strip())
            if found is None:
                raise SettingsError(f"cluster '{text}': expected e.g. 64, 8x8 or v100:9x4,k80:36, got '{part}'")
            if max(len(found["gpus"]), len(found["nodes"] or "")) > _DIGITS:
                raise SettingsError(f"cluster '{text}': expected at most {_DIGITS} digits of a number, got '{part}'")
            name, gpus, nodes = found["type"] or "gpu", int(found["gpus"]), int(found["nodes"] or 1)
            if 0 in (gpus, nodes):
                raise SettingsError(f"cluster '{text}': expected nodes and accelerators from 1, got '{part}'")
            if name not in names:
                names.append(name)
            sizes += [gpus] * nodes
            kinds += [names.index(name)] * nodes
        return Cluster(np.array(sizes, np.int64), np.array(kinds, np.int64), tuple(names))
