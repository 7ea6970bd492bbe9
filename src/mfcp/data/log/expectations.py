"""The log against the suites of a context of Great Expectations, the schema's and an operator's; its only importer.

Which rows break the schema is computed in pandas (`mfcp.data.log.coercion.broken`); the suites are made of the same
columns, so that Data Docs and MLflow show what was expected and how often it held. Which rows break an operator's
expectation the package itself says.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mfcp.data.log.constraints import Finding
from mfcp.data.log.data_docs import make_self_contained
from mfcp.data.log.expectation_suites import SOURCE, holds, own_expectations, write_context
from mfcp.data.log.schema import SCHEMA, Table
from mfcp.environment import switch_off
from mfcp.errors import DataError

if TYPE_CHECKING:
    from mfcp.arrays import Bools, Ints
    from mfcp.data.log.coercion import Coerced

FOLDER = Path("gx")
MOST_ROWS = 100_000
"""Rows of a table that a checkpoint sees at most: those that break the schema first, then every n-th of the others."""
_KEPT = 10  # results of each suite


class Expectations:
    """A context on disk, made if it is not there.

    Args:
        folder: of the context, `gx` of a checkout.

    Raises:
        DataError: a file of it is damaged, or cannot be written.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        if not (folder / "great_expectations.yml").is_file():
            write_context(folder)
        self.own = own_expectations(folder)
        self.report: dict[str, dict[str, int]] = {}
        self._context: Any = None

    @property
    def data_docs(self) -> Path:
        """The first page of the Data Docs."""
        return self.folder / "uncommitted" / "data_docs" / "local_site" / "index.html"

    def check(self, table: Table, coerced: Coerced, found: list[Finding]) -> list[Finding]:
        """Run a table's checkpoint, and find the rows that break expectations of an operator.

        Args:
            table: its schema.
            coerced: its rows.
            found: the schema's constraints, applied to them.

        Raises:
            DataError: an operator's expectation cannot be evaluated, or holds of no single row and is broken.
        """
        frame = with_held(table, coerced, found)
        return self.check_sample(table, frame, frame.iloc[sample(found, len(frame), MOST_ROWS)])

    def check_sample(self, table: Table, frame: pd.DataFrame, seen: pd.DataFrame) -> list[Finding]:
        """The same for rows `frame` as `with_held` makes them, of which the checkpoint sees some."""
        if seen.empty:
            return []
        with _quiet():
            result = self._opened().checkpoints.get(table.name).run(batch_parameters={"dataframe": seen})
            (results,) = (run.results for run in result.run_results.values())
            self.report[table.name] = {
                "rows": len(seen),
                "expectations": len(results),
                "broken": sum(not one.success for one in results),
            }
            own = [one for one in results if (one.expectation_config.meta or {}).get("origin") != SOURCE]
            self._refuse_unknown(table, [one.expectation_config.type for one in own])
            return [self._finding(table, frame, one) for one in own]

    def publish(self) -> Path:
        """Build the Data Docs, of the newest results only; the first page."""
        for place in ("validations", "data_docs/local_site/validations"):
            for suite in SCHEMA:
                runs = sorted((self.folder / "uncommitted" / place / suite).glob("*/*"))
                for old in runs[:-_KEPT]:
                    shutil.rmtree(old, ignore_errors=True)
        with _quiet():
            self._opened().build_data_docs()
        make_self_contained(self.data_docs.parent, self.folder / "uncommitted" / "validations")
        return self.data_docs

    def _finding(self, table: Table, frame: pd.DataFrame, result: Any) -> Finding:
        """The rows of a whole table that break one expectation, of which the checkpoint may have seen a sample."""
        config = result.expectation_config
        name, columns = config.type, _columns(config.kwargs)
        if failure := _failure(result.exception_info):
            raise DataError(
                f"{self._suite(table)}: {name} of {', '.join(columns) or 'the table'} cannot be evaluated "
                f"({failure}); mend the expectation"
            )
        if self.report[table.name]["rows"] < len(frame) or result.result.get("unexpected_count"):
            batches = self._opened().data_sources.get("log").get_asset(table.name).get_batch_definition("rows")
            batch = batches.get_batch({"dataframe": frame})
            result = batch.validate(config.to_domain_obj(), result_format="COMPLETE")
        if "unexpected_count" not in result.result:
            if not result.success:
                raise DataError(
                    f"{self._suite(table)}: {name} of {', '.join(columns) or 'the table'} is broken, observed "
                    f"{result.result.get('observed_value')}; no single row is at fault: mend the log or the expectation"
                )
            return Finding("expectation", columns, name, np.zeros(len(frame), bool))
        mask = np.zeros(len(frame), bool)
        mask[np.array(result.result.get("unexpected_index_list") or [], np.int64)] = True
        kwargs = {key: value for key, value in config.kwargs.items() if key not in ("column", "batch_id")}
        stated = ", ".join(f"{key} {value}" for key, value in kwargs.items())
        words = name.removeprefix("expect_").replace("_", " ")
        return Finding("expectation", columns, f"{words}{f' ({stated})' if stated else ''}", mask)

    def _refuse_unknown(self, table: Table, evaluated: list[str]) -> None:
        """Raise where the package has passed over an expectation, which it only logs."""
        missing = [one for one in self.own.get(table.name, []) if one.get("type") not in evaluated]
        if missing:
            raise DataError(
                f"{self._suite(table)}: no expectation is called '{missing[0].get('type')}', or its arguments are not "
                "its own; mend or remove it"
            )

    def _suite(self, table: Table) -> Path:
        return self.folder / "expectations" / f"{table.name}.json"

    def _opened(self) -> Any:
        """The context, opened when first needed: the package takes seconds to import."""
        if self._context is None:
            import great_expectations as gx
            import great_expectations.expectations

            try:
                self._context = gx.get_context(mode="file", context_root_dir=str(self.folder))
            except Exception as error:
                raise DataError(
                    f"{self.folder}: not a context of Great Expectations ({_first_line(str(error))}); take its files "
                    "from version control"
                ) from None
        return self._context


def of_working_folder() -> Expectations | None:
    """The context `gx` of the working folder where an operator has added expectations to it, else None.

    Commands that only read a log need nothing else of it: the schema is checked anyway.
    """
    return Expectations() if FOLDER.is_dir() and own_expectations(FOLDER) else None


def refuse_whole_table(expectations: Expectations, table: Table) -> None:
    """Raise where an operator expects of a table in parts what no single row shows.

    Raises:
        DataError: naming the expectation.
    """
    for one in expectations.own.get(table.name, []):
        kind = str(one.get("type"))
        rows = kind.startswith(("expect_column_values_", "expect_column_pair_values_", "expect_multicolumn_"))
        if not rows or any(word in kind for word in ("unique", "increasing", "decreasing", "z_score")):
            raise DataError(
                f"{expectations.folder / 'expectations' / table.name}.json: {kind} is of the whole table, and "
                f"{table.name} come in parts that are checked one by one; remove it, or expect something of each row"
            )


def with_held(table: Table, coerced: Coerced, found: list[Finding]) -> pd.DataFrame:
    """Rows in the schema's types, and whether their cells convert and name rows of other tables."""
    held = {holds(f.kind, f.columns): ~f.mask for f in found if f.kind in ("type", "reference")}
    frame = coerced.frame
    for column in table.columns:
        held.setdefault(holds("type", (column.name,)), np.ones(len(frame), bool))
    for foreign in table.foreign:
        held.setdefault(holds("reference", foreign.columns), np.ones(len(frame), bool))
    return pd.concat([frame.reset_index(drop=True), pd.DataFrame(held, index=range(len(frame)))], axis=1)


def sample(found: list[Finding], rows: int, most: int) -> Ints:
    """Positions of at most `most` rows: those that break something, then every n-th of the others."""
    if rows <= most:
        return np.arange(rows)
    bad: Bools = np.logical_or.reduce([f.mask for f in found])
    broken, good = np.flatnonzero(bad)[:most], np.flatnonzero(~bad)
    room = most - len(broken)
    chosen = good[np.linspace(0, len(good) - 1, min(room, len(good))).astype(np.int64)] if room else good[:0]
    return np.sort(np.concatenate([broken, chosen]))


def _columns(kwargs: dict[str, Any]) -> tuple[str, ...]:
    listed = kwargs.get("column_list") or kwargs.get("column_set") or []
    named = [kwargs[key] for key in ("column", "column_A", "column_B") if kwargs.get(key)]
    return tuple(map(str, [*named, *listed]))


def _failure(info: Any) -> str:
    """Why an expectation could not be evaluated, empty where it was; the package has one entry, or one a metric."""
    if not isinstance(info, dict):
        return ""
    entries = [info, *(entry for entry in info.values() if isinstance(entry, dict))]
    messages = [entry["exception_message"] for entry in entries if entry.get("exception_message")]
    return _first_line(str(messages[0])) if messages else ""


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200] if text.strip() else "no reason given"


@contextmanager
def _quiet() -> Iterator[None]:
    """Its telemetry off, and without the warnings of its imports (sre_parse, deprecated in Python 3.11)."""
    switch_off()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
