"""Valid rows, quarantined rows with reasons, and a report."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mfcp.arrays import Bools
from mfcp.data.log.coercion import coerce
from mfcp.data.log.constraints import Finding, findings, without_success
from mfcp.data.log.formats import write_sheet
from mfcp.data.log.quarantine import no_lines, quarantine_findings, quarantine_lines
from mfcp.data.log.schema import EXAMPLE, SCHEMA, SUCCEEDED
from mfcp.data.log.tables import Tables, check_columns
from mfcp.errors import DataError
from mfcp.files import write_json

if TYPE_CHECKING:
    from mfcp.data.log.expectations import Expectations


@dataclass(frozen=True)
class Validated:
    """What validation found.

    Attributes:
        tables: valid rows only, every schema column in its type.
        quarantine: one line per broken constraint: table, row (1 is the first data row), key, column, constraint,
            value, expected.
        report: counts a table and constraint, and warnings; plain JSON values.
    """

    tables: Tables
    quarantine: pd.DataFrame
    report: dict[str, Any]


class TooManyBadRowsError(DataError):
    """More rows are bad than allowed; `validated` holds the report and the quarantine all the same."""

    def __init__(self, message: str, validated: Validated) -> None:
        super().__init__(message)
        self.validated = validated


def validate(tables: Tables, *, max_bad_share: float, expectations: Expectations | None = None) -> Validated:
    """Check every row of every table against the schema, and against what an operator expects besides.

    All rows that share a key are bad, since nothing tells which of them is right. A row that refers to a bad
    row is bad. Tasks without a succeeded run are left out with their runs, but count as a warning, not as bad.

    Args:
        tables: as `read_tables` or a source gives them.
        max_bad_share: largest tolerated share of bad rows of any one table, in [0, 1].
        expectations: a context of Great Expectations whose checkpoints run, and whose further expectations hold as the
            schema's constraints do; None checks the schema alone.

    Raises:
        DataError: a required table or column is missing.
        TooManyBadRowsError: naming each table over the limit, its worst constraint and an example.
    """
    missing = [t.name for t in SCHEMA.values() if t.required and t.name not in tables]
    if missing:
        raise DataError(f"table '{missing[0]}' is missing; the log has {', '.join(tables) or 'no table'}")
    valid: Tables = {}
    bad_rows: list[pd.DataFrame] = []
    report: dict[str, Any] = {}
    for table in (t for t in SCHEMA.values() if t.name in tables):
        check_columns(table, tables[table.name], "log")
        coerced = coerce(table, tables[table.name])
        found = findings(table, coerced, valid)
        if expectations is not None:
            found += expectations.check(table, coerced, found)
        bad = np.logical_or.reduce([f.mask for f in found])
        bad_rows.append(quarantine_findings(table, coerced, found))
        valid[table.name] = coerced.frame.assign(**{_ROW: np.arange(1, len(bad) + 1)})[~bad]
        report[table.name] = _table_report(found, bad)
    examples, example_lines = _drop_examples(valid)
    dropped, lines = _drop_unsuccessful(valid)
    result = Validated(
        tables={name: frame.drop(columns=_ROW).reset_index(drop=True) for name, frame in valid.items()},
        quarantine=pd.concat([*bad_rows, example_lines, lines], ignore_index=True),
        report={
            "max_bad_share": max_bad_share,
            "tables": report,
            "warnings": [*_misspelt(tables), *_no_success(tables["runs"]), *examples, *dropped],
            "expectations": {} if expectations is None else dict(expectations.report),
        },
    )
    _refuse_bad_share(result, max_bad_share)
    return result


def write_report(validated: Validated, folder: Path) -> None:
    """Write validation.json and quarantine.csv, each whole or not at all."""
    write_json(Path(folder) / "validation.json", validated.report)
    write_sheet(validated.quarantine, Path(folder) / "quarantine.csv")


_ROW = "__row__"


def _drop_unsuccessful(valid: Tables) -> tuple[list[str], pd.DataFrame]:
    """Take tasks that never succeeded out of `valid`, with all that refers to them; warnings and quarantine lines."""
    tasks, runs = valid["tasks"], valid["runs"]
    names = tasks.loc[without_success(tasks, runs), "task_id"]
    if names.empty:
        return [], no_lines()
    lines = []
    for name in ("tasks", "runs", "truth"):
        if name not in valid:
            continue
        frame = valid[name]
        gone = frame["task_id"].isin(names)
        out = frame[gone]
        expected = "a task with a succeeded run on some cluster"
        lines.append(quarantine_lines(SCHEMA[name], out, out[_ROW], ("task_id",), "no_success", expected))
        valid[name] = frame[~gone]
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    warning = f"{len(names)} of {len(tasks)} tasks have no succeeded run anywhere and are left out: {shown}"
    return [warning], pd.concat(lines, ignore_index=True)


def _drop_examples(valid: Tables) -> tuple[list[str], pd.DataFrame]:
    """Take the rows of `mfcp init` out of `valid`: nobody measured them; a warning and quarantine lines."""
    lines, left = [no_lines()], []
    for name, row in EXAMPLE.items():
        frame, key = valid[name], SCHEMA[name].key[0]
        gone = (frame[key] == row[key]) if key in row else pd.Series(False, frame.index)
        if gone.any():
            left.append(name)
            out, expected = frame[gone], "a row of your own instead of the example"
            lines.append(quarantine_lines(SCHEMA[name], out, out[_ROW], (key,), "example", expected))
            valid[name] = frame[~gone]
    if not left:
        return [], no_lines()
    return [f"the example row of `mfcp init` is left out of {', '.join(left)}"], pd.concat(lines, ignore_index=True)


def _no_success(runs: pd.DataFrame) -> list[str]:
    """The statuses of a log in which no run succeeded: most likely another word says so."""
    if runs.empty or (runs["status"] == SUCCEEDED).any():
        return []
    seen = ", ".join(f"'{status}' ({count})" for status, count in runs["status"].value_counts().head(5).items())
    return [f"runs: none has status '{SUCCEEDED}', they have {seen}; write '{SUCCEEDED}' for those that ended well"]


def _misspelt(tables: Tables) -> list[str]:
    """Columns that the schema does not know and whose names are close to one that is not there."""
    found = []
    for table in (t for t in SCHEMA.values() if t.name in tables):
        columns = [str(column) for column in tables[table.name].columns]
        absent = [c.name for c in table.columns if c.name not in columns or tables[table.name][c.name].isna().all()]
        known = {c.name for c in table.columns}
        for column in columns:
            near = get_close_matches(column.lower(), absent, 1, 0.8) if column not in known else []
            found += [f"{table.name}: column '{column}' is ignored; is it '{name}'?" for name in near]
    return found


def _table_report(found: list[Finding], bad: Bools) -> dict[str, Any]:
    constraints = [{"constraint": f.label, "expected": f.expected, "bad": int(f.mask.sum())} for f in found]
    share = float(bad.mean()) if len(bad) else 0.0
    return {"rows": len(bad), "bad_rows": int(bad.sum()), "bad_share": share, "constraints": constraints}


def _refuse_bad_share(validated: Validated, limit: float) -> None:
    """Raise when a table has a larger share of bad rows than allowed; the table that others refer to comes first."""
    over = []
    for name, entry in validated.report["tables"].items():
        if entry["bad_share"] <= limit:
            continue
        worst = max(entry["constraints"], key=lambda constraint: constraint["bad"])
        lines = validated.quarantine
        labels = lines["constraint"] + "(" + lines["column"] + ")"
        first = lines[(lines["table"] == name) & (labels == worst["constraint"])].iloc[0]
        over.append(
            f"{name}: {entry['bad_rows']} of {entry['rows']} rows are bad ({entry['bad_share']:.1%}), most by "
            f"constraint {worst['constraint']}, expected {worst['expected']}; e.g. row {first['row']}, "
            f"key '{first['key']}', value '{first['value']}'"
        )
    if over:
        message = f"more than {limit:.1%} bad rows: {'; '.join(over)}; mend the log or raise validate.max_bad_share"
        raise TooManyBadRowsError(message, validated)
