"""The quarantine: one line for every constraint that a row breaks, with the value as it was read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Ints
from mfcp.data.log.coercion import Coerced
from mfcp.data.log.constraints import Finding
from mfcp.data.log.schema import Table

COLUMNS = ("table", "row", "key", "column", "constraint", "value", "expected")
"""Of the quarantine file: row 1 is the table's first data row, key its unique columns."""


def no_lines() -> pd.DataFrame:
    """An empty quarantine."""
    return pd.DataFrame(columns=list(COLUMNS))


def quarantine_findings(table: Table, coerced: Coerced, found: list[Finding]) -> pd.DataFrame:
    """The lines of one table, row by row."""
    lines = []
    for finding in found:
        mask = finding.mask
        if finding.kind == "missing" and finding.columns[0] in coerced.wrong:
            mask = mask & ~coerced.wrong[finding.columns[0]]  # named as a wrong type already
        rows = np.flatnonzero(mask)
        if len(rows):
            out = _told(coerced, rows, (*table.key, *finding.columns))
            lines.append(quarantine_lines(table, out, rows + 1, finding.columns, finding.kind, finding.expected))
    if not lines:
        return no_lines()
    return pd.concat(lines, ignore_index=True).sort_values("row", kind="stable", ignore_index=True)


def _told(coerced: Coerced, rows: Ints, columns: tuple[str, ...]) -> pd.DataFrame:
    """Cells in their types, and where they do not convert as they were read."""
    cells = {}
    for name in dict.fromkeys(columns):
        cells[name] = coerced.frame[name].iloc[rows]
        if name in coerced.wrong:
            right = ~coerced.wrong[name][rows]
            cells[name] = cells[name].astype(object).where(right, coerced.raw[name].iloc[rows].astype(object))
    return pd.DataFrame(cells)


def quarantine_lines(
    table: Table, out: pd.DataFrame, rows: Any, columns: tuple[str, ...], constraint: str, expected: str
) -> pd.DataFrame:
    """The lines of one constraint.

    Args:
        table: the rows' table.
        out: the rows that break the constraint.
        rows: their numbers in the file, from 1.
        columns: that the constraint is about.
        constraint: its kind.
        expected: what a row must hold, in words.
    """
    keys, values = _joined(out, table.key), _joined(out, columns)
    cells = (table.name, np.asarray(rows), keys, ", ".join(columns), constraint, values, expected)
    return pd.DataFrame(dict(zip(COLUMNS, cells, strict=True)), index=range(len(out)))


def _joined(frame: pd.DataFrame, columns: tuple[str, ...]) -> list[str]:
    """The cells of some columns as text, one string a row; an empty cell gives an empty text."""
    texts = [
        ["" if missing else str(value) for value, missing in zip(frame[c].tolist(), frame[c].isna(), strict=True)]
        for c in columns
    ]
    return ["|".join(row) for row in zip(*texts, strict=True)]
