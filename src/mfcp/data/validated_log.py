"""A folder's log, validated here and now, with the totals of its runs in place of them: what commands learn from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mfcp.data.log.copying import copy_log
from mfcp.data.log.parted import validate_parts
from mfcp.data.log.parts import beyond_one_part
from mfcp.data.log.schema import RUNS
from mfcp.data.log.tables import Tables, find_tables, read_tables, write_tables
from mfcp.data.log.validation import Findings, validate
from mfcp.data.pool.reading import read_totalled
from mfcp.data.pool.run_totals import TotalledLog, totalled
from mfcp.files import UnwritableError, output_folder

if TYPE_CHECKING:
    from mfcp.data.log.expectations import Expectations


@dataclass(frozen=True)
class ValidatedLog:
    """What a log holds and what is wrong with it.

    Attributes:
        tables: valid rows, and the totals of the runs.
        runs: how many of them are valid.
        findings: report and quarantine.
    """

    tables: TotalledLog
    runs: int
    findings: Findings

    @property
    def bad_rows(self) -> int:
        """Rows of all tables that break the schema."""
        return sum(entry["bad_rows"] for entry in self.findings.report["tables"].values())


@contextmanager
def validated_log(
    folder: Path, *, max_bad_share: float, expectations: Expectations | None = None
) -> Iterator[ValidatedLog]:
    """Read and validate a log; runs without `run_id` are named by their rows.

    Runs beyond one part are never in memory all at once: they are copied in parts to a temporary folder, of which the
    quarantine is read until the block ends.

    Args:
        folder: in the log schema.
        max_bad_share, expectations: as `validate`.

    Raises:
        DataError: as `read_tables` and `validate_parts`; UnwritableError where the temporary folder is full.
        TooManyBadRowsError: as `validate`.
    """
    how: dict[str, Any] = {"max_bad_share": max_bad_share, "expectations": expectations}
    if not beyond_one_part(find_tables(folder)[RUNS.name]):
        yield _in_memory(read_tables(folder, name_runs=True), how)
        return
    with TemporaryDirectory(prefix="mfcp-log-") as name:
        try:
            log = _in_parts(folder, Path(name), how)
        except UnwritableError as error:
            raise UnwritableError(f"{error} by TMPDIR") from None
        yield log


def _in_parts(folder: Path, temporary: Path, how: dict[str, Any]) -> ValidatedLog:
    raw, scratch, valid = (output_folder(temporary / own) for own in ("raw", "scratch", "valid"))
    copy_log(folder, raw, scratch / "copied", name_runs=True)
    if not (raw / RUNS.name).is_dir():  # few rows of much text
        return _in_memory(read_tables(raw), how)
    parts = validate_parts(raw, scratch / "checked", **how)
    write_tables(parts.tables, valid)
    parts.write_runs(valid)
    return ValidatedLog(read_totalled(valid), parts.runs, parts)


def _in_memory(tables: Tables, how: dict[str, Any]) -> ValidatedLog:
    found = validate(tables, **how)
    return ValidatedLog(totalled(found.tables), len(found.tables[RUNS.name]), found)
