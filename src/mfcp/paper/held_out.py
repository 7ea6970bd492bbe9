"""What a study holds out for good: families or source tasks, and clusters, by log."""

from __future__ import annotations

import string
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.log.tables import Tables


class HeldOutOf(BaseModel):
    """What of one log no decision, benchmark or tuning has looked at.

    Attributes:
        families: names of families; of source tasks, where a log has too few families to split by.
        clusters: names of clusters.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    families: tuple[str, ...] = Field((), description="held out instead of a share of all")
    clusters: tuple[str, ...] = Field((), description="on which the last test is, and nothing else")


class HeldOut(BaseModel):
    """What no experiment looks at but those with `held_out`: families, clusters, and settings of clusters.

    Such an experiment has several draws of test tasks: the first are the families held out for good, and each further
    one is as many others, held out for this draw. Every draw has settings of its own, of the clusters held out where
    the log has such.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    families: float = Field(gt=0, lt=1, description="share of families; their tasks are the test tasks then")
    names: dict[str, HeldOutOf] = Field({}, description="log → what it holds out for good, by name")
    draws: int = Field(1, ge=1, description="draws of test tasks")
    seeds: int = Field(ge=1, description="splits of all other tasks into training and validation, for each draw")
    settings: int = Field(ge=1, description="of each draw, after all others, of clusters these have not if possible")

    def letters(self, after: int, draw: int | None = None) -> tuple[str, ...]:
        """Names of the settings of a draw, or of all draws."""
        every = letters(after, self.draws * self.settings)
        return every if draw is None else every[draw * self.settings : (draw + 1) * self.settings]

    def of(self, log: str) -> HeldOutOf:
        """What a log holds out by name."""
        return self.names.get(log, HeldOutOf())


def letters(after: int, count: int) -> tuple[str, ...]:
    """Names of settings: capitals, from the one at `after` on; `after + count` at most 26."""
    return tuple(string.ascii_uppercase[after : after + count])


def of_clusters(tables: Tables, names: Sequence[str], *, kept: bool) -> Tables:
    """A log with these of its clusters and what ran there alone, or (`kept` false) with all others.

    A log that has none of them is left as it is.
    """
    if not tables["clusters"]["cluster_id"].isin(names).any():
        return tables
    return {
        name: table[table["cluster_id"].isin(names) == kept].reset_index(drop=True) if "cluster_id" in table else table
        for name, table in tables.items()
    }
