"""Valid rows, quarantined rows with reasons, and a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from mfcp.arrays import Bools
from mfcp.data.log.coercion import Coerced, coerce
from mfcp.data.log.constraints import Finding, findings, without_success
from mfcp.data.log.formats import write_sheet
from mfcp.data.log.quarantine import no_lines, quarantine_findings, quarantine_lines
from mfcp.data.log.schema import EXAMPLE, SCHEMA, SUCCEEDED, Table
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

    def sheets(self) -> Iterator[pd.DataFrame]:
        """The quarantine."""
        yield self.quarantine


class Findings(Protocol):
    """What a validation tells, of a log in memory or in parts."""

    @property
    def report(self) -> dict[str, Any]:
        """Counts a table and constraint, and warnings; plain JSON values."""
        ...

    def sheets(self) -> Iterator[pd.DataFrame]:
        """The lines of the quarantine, in frames that fit into memory; at least one."""
        ...


class TooManyBadRowsError(DataError):
    """More rows are bad than allowed; `validated` holds the report and the quarantine all the same."""

    def __init__(self, message: str, validated: Findings) -> None:
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
        own = check_table(table, tables[table.name], valid, expectations)
        bad_rows.append(own.lines)
        valid[table.name] = own.valid
        report[table.name] = own.report
    examples, example_lines = _drop_examples(valid)
    without = without_success(valid["tasks"], valid["runs"])
    dropped, lines = drop_tasks(valid, without)
    result = Validated(
        tables={name: unnumbered(frame) for name, frame in valid.items()},
        quarantine=pd.concat([*bad_rows, example_lines, lines], ignore_index=True),
        report={
            "max_bad_share": max_bad_share,
            "tables": report,
            "warnings": [*_misspelt(tables), *no_success(_statuses(tables["runs"])), *examples, *dropped],
            "expectations": {} if expectations is None else dict(expectations.report),
        },
    )
    refuse_bad_share(result, max_bad_share)
    return result


@dataclass(frozen=True)
class CheckedTable:
    """One table against its schema.

    Attributes:
        valid: the rows that break nothing, with their numbers, from 1, in column `ROW`.
        lines: of the quarantine.
        report: counts of every constraint.
        coerced: all rows in the schema's types.
        found: the constraints.
    """

    valid: pd.DataFrame
    lines: pd.DataFrame
    report: dict[str, Any]
    coerced: Coerced
    found: list[Finding]


def check_table(
    table: Table,
    frame: pd.DataFrame,
    valid: Tables,
    expectations: Expectations | None = None,
    repeated: Callable[[pd.DataFrame], Bools] | None = None,
) -> CheckedTable:
    """Check the rows of a table.

    Args:
        table: its schema.
        frame: its rows as they were read.
        valid: tables that were checked before.
        expectations: as `validate`.
        repeated: which rows of the table in the schema's types have a key that others have; None looks among these.

    Raises:
        DataError: a column is missing.
    """
    check_columns(table, frame, "log")
    coerced = coerce(table, frame)
    found = findings(table, coerced, valid, repeated)
    if expectations is not None:
        found += expectations.check(table, coerced, found)
    bad = np.logical_or.reduce([f.mask for f in found])
    good = coerced.frame.assign(**{ROW: np.arange(1, len(bad) + 1)})[~bad]
    return CheckedTable(good, quarantine_findings(table, coerced, found), _table_report(found, bad), coerced, found)


def unnumbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Valid rows of a table without their numbers."""
    return frame.drop(columns=ROW).reset_index(drop=True)


def write_report(validated: Findings, folder: Path) -> None:
    """Write validation.json and quarantine.csv, each whole or not at all."""
    write_json(Path(folder) / "validation.json", validated.report)
    write_sheet(validated.sheets(), Path(folder) / "quarantine.csv")


ROW = "__row__"
_SUCCESS = "a task with a succeeded run on some cluster"


def drop_tasks(valid: Tables, without: Bools) -> tuple[list[str], pd.DataFrame]:
    """Take tasks that never succeeded out of `valid`, with all that refers to them; warnings and quarantine lines."""
    tasks = valid["tasks"]
    names = tasks.loc[without, "task_id"]
    if names.empty:
        return [], no_lines()
    lines = []
    for name in ("tasks", "runs", "truth"):
        if name not in valid:
            continue
        valid[name], own = without_tasks(SCHEMA[name], valid[name], names)
        lines.append(own)
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    warning = f"{len(names)} of {len(tasks)} tasks have no succeeded run anywhere and are left out: {shown}"
    return [warning], pd.concat(lines, ignore_index=True)


def without_tasks(table: Table, frame: pd.DataFrame, names: pd.Series[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Valid rows of other tasks than those of `names`, and the quarantine lines of the others."""
    gone = frame["task_id"].isin(names)
    out = frame[gone]
    return frame[~gone], quarantine_lines(table, out, out[ROW], ("task_id",), "no_success", _SUCCESS)


def without_example(table: Table, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Valid rows without the one of `mfcp init`, which nobody measured, and its quarantine line."""
    key = table.key[0]
    gone = frame[key] == EXAMPLE[table.name][key]
    out, expected = frame[gone], "a row of your own instead of the example"
    return frame[~gone], quarantine_lines(table, out, out[ROW], (key,), "example", expected)


def _drop_examples(valid: Tables) -> tuple[list[str], pd.DataFrame]:
    """Take the rows of `mfcp init` out of `valid`; a warning and quarantine lines."""
    lines, left = [no_lines()], []
    for name in (name for name in EXAMPLE if name in valid):
        valid[name], own = without_example(SCHEMA[name], valid[name])
        left += [name] if len(own) else []
        lines.append(own)
    return left_out(left), pd.concat(lines, ignore_index=True)


def left_out(names: Sequence[str]) -> list[str]:
    """The warning that the example is left out of some tables."""
    return [f"the example row of `mfcp init` is left out of {', '.join(names)}"] if names else []


def _statuses(runs: pd.DataFrame) -> pd.Series[Any]:
    return runs["status"].value_counts()


def no_success(statuses: pd.Series[Any]) -> list[str]:
    """A warning with the statuses of a log in which no run succeeded: most likely another word says so."""
    if statuses.empty or SUCCEEDED in statuses:
        return []
    seen = ", ".join(f"'{status}' ({count})" for status, count in statuses.head(5).items())
    return [f"runs: none has status '{SUCCEEDED}', they have {seen}; write '{SUCCEEDED}' for those that ended well"]


def _misspelt(tables: Tables) -> list[str]:
    """Columns that the schema does not know and whose names are close to one that is not there."""
    found = []
    for table in (t for t in SCHEMA.values() if t.name in tables):
        found += misspelt_in(table, tables[table.name])
    return found


def misspelt_in(table: Table, frame: pd.DataFrame) -> list[str]:
    """See `misspelt`."""
    columns = [str(column) for column in frame.columns]
    return misspelt(
        table, columns, [c.name for c in table.columns if c.name not in frame or frame[c.name].isna().all()]
    )


def misspelt(table: Table, columns: Sequence[str], absent: Sequence[str]) -> list[str]:
    """Warnings of columns of a table that the schema does not know, near to one that is absent or all empty."""
    found, known = [], {c.name for c in table.columns}
    for column in columns:
        near = get_close_matches(column.lower(), absent, 1, 0.8) if column not in known else []
        found += [f"{table.name}: column '{column}' is ignored; is it '{name}'?" for name in near]
    return found


def _table_report(found: list[Finding], bad: Bools) -> dict[str, Any]:
    constraints = [{"constraint": f.label, "expected": f.expected, "bad": int(f.mask.sum())} for f in found]
    share = float(bad.mean()) if len(bad) else 0.0
    return {"rows": len(bad), "bad_rows": int(bad.sum()), "bad_share": share, "constraints": constraints}


def refuse_bad_share(validated: Findings, limit: float) -> None:
    """Raise when a table has a larger share of bad rows than allowed; the table that others refer to comes first."""
    over = []
    for name, entry in validated.report["tables"].items():
        if entry["bad_share"] <= limit:
            continue
        worst = max(entry["constraints"], key=lambda constraint: constraint["bad"])
        first = _first_line(validated, name, worst["constraint"])
        over.append(
            f"{name}: {entry['bad_rows']} of {entry['rows']} rows are bad ({entry['bad_share']:.1%}), most by "
            f"constraint {worst['constraint']}, expected {worst['expected']}; e.g. row {first['row']}, "
            f"key '{first['key']}', value '{first['value']}'"
        )
    if over:
        message = f"more than {limit:.1%} bad rows: {'; '.join(over)}; mend the log or raise validate.max_bad_share"
        raise TooManyBadRowsError(message, validated)


def _first_line(validated: Findings, table: str, constraint: str) -> Any:
    for lines in validated.sheets():
        found = lines[lines["table"] == table]
        found = found[found["constraint"] + "(" + found["column"] + ")" == constraint]
        if len(found):
            return found.iloc[0]
    raise AssertionError(f"no line of {constraint}")
