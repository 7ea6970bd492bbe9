"""Valid rows, quarantined rows with reasons, and a report; the only importer of great_expectations.

The constraints come from the schema alone. Great Expectations counts how many rows break each of them; the mask
that says *which* rows is computed in pandas from the same constraints, and the two must agree.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Bools
from mfcp.data.log.coercion import Coerced, coerce
from mfcp.data.log.constraints import Finding, findings, without_success
from mfcp.data.log.quarantine import no_lines, quarantine_findings, quarantine_lines
from mfcp.data.log.schema import EXAMPLE, SCHEMA, Table
from mfcp.data.log.tables import Tables, check_columns
from mfcp.errors import DataError, MfcpError
from mfcp.files import replacing, write_json
from mfcp.telemetry import switch_off

ROWS_AT_ONCE = 500_000  # Great Expectations copies what it checks: 1e7 rows in one piece take 3 GB


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


def validate(tables: Tables, *, max_bad_share: float, counted: bool = True) -> Validated:
    """Check every row of every table against the schema.

    All rows that share a key are bad, since nothing tells which of them is right. A row that refers to a bad
    row is bad. Tasks without a succeeded run are left out with their runs, but count as a warning, not as bad.

    Args:
        tables: as `read_tables` or a source gives them.
        max_bad_share: largest tolerated share of bad rows of any one table, in [0, 1].
        counted: Great Expectations counts too; it takes seconds, which a log that it has seen need not wait for again.

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
        if counted:
            _agree(table, found, _expectation_counts(table, coerced, found))
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
            "warnings": [*_misspelt(tables), *examples, *dropped],
        },
    )
    _refuse_bad_share(result, max_bad_share)
    return result


def write_report(validated: Validated, folder: Path) -> None:
    """Write validation.json and quarantine.csv, each whole or not at all."""
    write_json(Path(folder) / "validation.json", validated.report)
    with replacing(Path(folder) / "quarantine.csv") as path:
        validated.quarantine.to_csv(path, index=False, lineterminator="\n")


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


def _expectation_counts(table: Table, coerced: Coerced, found: list[Finding]) -> list[int]:
    """How many rows break each constraint by Great Expectations' count.

    Types and references are not expectations on one column of one table: they enter as a column that says
    whether they hold.
    """
    held = {f.label: ~f.mask for f in found if f.kind in ("type", "reference")}
    frame = pd.DataFrame({c.name: coerced.frame[c.name] for c in table.columns} | held)
    # A key is unique over the whole table; every other constraint holds row by row, in pieces.
    whole = [f for f in found if f.kind == "unique"]
    rowwise = [f for f in found if f.kind != "unique"]
    counts = dict(zip([f.label for f in whole], _count(table, frame[list(table.key)], whole), strict=True))
    counts |= {f.label: 0 for f in rowwise}
    for start in range(0, len(frame), ROWS_AT_ONCE):
        piece = _count(table, frame.iloc[start : start + ROWS_AT_ONCE], rowwise)
        for finding, count in zip(rowwise, piece, strict=True):
            counts[finding.label] += count
    return [counts[f.label] for f in found]


def _count(table: Table, frame: pd.DataFrame, found: list[Finding]) -> list[int]:
    """Unexpected rows of each constraint in one piece of a table, by an ephemeral Great Expectations suite."""
    if not found or frame.empty:
        return [0] * len(found)
    gx = _great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    asset = context.data_sources.add_pandas("log").add_dataframe_asset(table.name)
    batch = asset.add_batch_definition_whole_dataframe("rows").get_batch({"dataframe": frame})
    suite = gx.ExpectationSuite(name=table.name, expectations=[_expectation(gx, table, f) for f in found])
    results = batch.validate(suite, result_format="SUMMARY").results
    for result in results:
        if result.exception_info.get("exception_message"):
            raise MfcpError(f"{table.name}: great_expectations failed: {result.exception_info['exception_message']}")
    by_meta = {
        result.expectation_config.meta["constraint"]: int(result.result["unexpected_count"]) for result in results
    }
    return [by_meta[f.label] for f in found]


def _expectation(gx: Any, table: Table, finding: Finding) -> Any:
    """The expectation of one constraint."""
    kinds = gx.expectations
    first = finding.columns[0]
    meta = {"constraint": finding.label}
    match finding.kind:
        case "missing":
            return kinds.ExpectColumnValuesToNotBeNull(column=first, meta=meta)
        case "range":
            c = table[first]
            return kinds.ExpectColumnValuesToBeBetween(
                column=first, min_value=c.low, max_value=c.high, strict_min=c.above, meta=meta
            )
        case "values":
            return kinds.ExpectColumnValuesToBeInSet(column=first, value_set=list(table[first].values), meta=meta)
        case "unique" if len(finding.columns) == 1:
            return kinds.ExpectColumnValuesToBeUnique(column=first, meta=meta)
        case "unique":
            return kinds.ExpectCompoundColumnsToBeUnique(
                column_list=list(finding.columns), ignore_row_if="any_value_is_missing", meta=meta
            )
        case _:
            return kinds.ExpectColumnValuesToBeInSet(column=finding.label, value_set=[True], meta=meta)


def _great_expectations() -> Any:
    """The package, imported when first needed (seconds) and with its telemetry off."""
    switch_off()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it imports sre_parse, deprecated in Python 3.11
        import great_expectations as gx
        import great_expectations.expectations
    return gx


def _agree(table: Table, found: list[Finding], counts: list[int]) -> None:
    """Raise unless Great Expectations counted what the masks hold: a disagreement is a fault of ours."""
    for finding, count in zip(found, counts, strict=True):
        if count != finding.mask.sum():
            raise MfcpError(
                f"{table.name}, constraint {finding.label}: great_expectations counts {count} bad rows, the mask "
                f"{int(finding.mask.sum())}; please report this"
            )
