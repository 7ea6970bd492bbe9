"""The constraints that the schema states, as one mask of offending rows each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Ints
from mfcp.data.log.coercion import broken
from mfcp.data.log.schema import SUCCEEDED, ForeignKey, Table

if TYPE_CHECKING:
    from mfcp.data.log.coercion import Coerced
    from mfcp.data.log.tables import Tables

Kind = Literal["type", "missing", "range", "values", "unique", "reference", "no_success", "example", "expectation"]


@dataclass(frozen=True)
class Finding:
    """One constraint applied to one table: which rows break it, possibly none.

    Attributes:
        kind: what sort of constraint.
        columns: that it is about.
        expected: what a row must hold, in words.
        mask: (rows,) True where the constraint is broken.
    """

    kind: Kind
    columns: tuple[str, ...]
    expected: str
    mask: Bools

    @property
    def label(self) -> str:
        """Rule and columns, as reports name them."""
        return f"{self.kind}({', '.join(self.columns)})"


def findings(
    table: Table, coerced: Coerced, valid: Tables, repeated: Callable[[pd.DataFrame], Bools] | None = None
) -> list[Finding]:
    """Every constraint of a table, in the schema's order.

    Args:
        table: its schema.
        coerced: its rows, converted cell by cell.
        valid: tables that were checked before, only their valid rows.
        repeated: which rows of a unique key stand in the table more than once; None looks among these.
    """
    frame = coerced.frame
    found = []
    for column in table.columns:
        if column.name in coerced.wrong:
            found.append(Finding("type", (column.name,), column.expected, coerced.wrong[column.name]))
        for kind, mask in broken(column, frame[column.name]).items():
            found.append(Finding(kind, (column.name,), column.expected, mask))
    if table.unique:
        twice = _repeated(table, frame) if repeated is None else repeated(frame)
        found.append(Finding("unique", table.key, "occurs once", twice))
    for foreign in table.foreign:
        if foreign.target in valid:
            expected = f"a valid row of {foreign.target} ({', '.join(foreign.target_columns)})"
            found.append(Finding("reference", foreign.columns, expected, _dangling(foreign, frame, valid)))
    return found


def without_success(tasks: pd.DataFrame, runs: pd.DataFrame) -> Bools:
    """(tasks,) True for a task with no succeeded run on any cluster: it has no time to learn or match."""
    done = runs.loc[runs["status"] == SUCCEEDED, "task_id"].unique()  # text is searched once a row: a million times
    result: Bools = ~tasks["task_id"].isin(done).to_numpy(bool)
    return result


def _repeated(table: Table, frame: pd.DataFrame) -> Bools:
    known = frame[list(table.key)].notna().all(axis=1)
    result: Bools = (frame.duplicated(list(table.key), keep=False) & known).to_numpy(bool)
    return result


def _dangling(foreign: ForeignKey, frame: pd.DataFrame, valid: Tables) -> Bools:
    """(rows,) True where the columns are known but name no valid row of the target."""
    child, target = frame[list(foreign.columns)], valid[foreign.target][list(foreign.target_columns)]
    codes = np.zeros(len(target) + len(child), np.int64)
    for ours, theirs in zip(foreign.columns, foreign.target_columns, strict=True):
        code = _codes(target[theirs], child[ours])
        codes = codes * (code.max(initial=0) + 1) + code
    known = child.notna().all(axis=1).to_numpy(bool)
    result: Bools = known & ~np.isin(codes[len(target) :], codes[: len(target)])
    return result


def _codes(first: pd.Series[Any], second: pd.Series[Any]) -> Ints:
    """Equal non-negative numbers for equal values of two columns, end to end."""
    return pd.factorize(pd.concat([first, second], ignore_index=True), use_na_sentinel=False)[0].astype(np.int64)
