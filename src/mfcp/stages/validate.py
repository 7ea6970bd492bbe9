"""Stage validate: data/raw → data/valid, with offending rows and reasons in data/reports/validation."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mfcp.compiling import prepare_ahead
from mfcp.data.log.expectations import Expectations
from mfcp.data.log.parted import validate_parts
from mfcp.data.log.parts import kept_for_next
from mfcp.data.log.schema import RUNS
from mfcp.data.log.tables import read_tables, write_tables
from mfcp.data.log.validation import Findings, TooManyBadRowsError, validate, write_report
from mfcp.errors import MfcpError
from mfcp.files import folder_digest, replacing_folder
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import RAW, REPORTS, VALID, main
from mfcp.tracking import MetricPoint, log_points

EXPERIMENT = "mfcp-validation"


class ValidateSettings(BaseModel):
    """Section `validate` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_bad_share: float = Field(0.05, ge=0, le=1, description="largest tolerated share of bad rows of a table")


def run(settings: Settings) -> None:
    """Check every row of the raw tables, against the context `gx` as well, and keep the good ones."""
    prepare_ahead()  # stages that follow need kernels, and this one leaves a core idle
    section: ValidateSettings = settings.section("validate")
    expectations = Expectations()
    how: dict[str, Any] = {"max_bad_share": section.max_bad_share, "expectations": expectations}
    try:
        if (RAW / RUNS.name).is_dir():
            _run_in_parts(how)
            return
        with progress("validate"):
            validated = validate(read_tables(RAW), **how)
    except TooManyBadRowsError as error:  # the rows and reasons are what a person needs now
        _tell(error.validated, expectations)
        raise
    docs = _tell(validated, expectations)
    with replacing_folder(VALID) as folder:
        write_tables(validated.tables, folder)
    _end(validated, docs)


def _run_in_parts(how: dict[str, Any]) -> None:
    """The same for runs that are too many for the memory."""
    with kept_for_next(VALID.with_name(".valid.parts")) as scratch:
        with progress("validate in parts"):
            validated = validate_parts(RAW, scratch, **how)
        docs = _tell(validated, how["expectations"])
        with replacing_folder(VALID) as folder:
            write_tables(validated.tables, folder)
            validated.write_runs(folder)
        _end(validated, docs)


def _end(validated: Findings, docs: Path) -> None:
    lines = sum(len(sheet) for sheet in validated.sheets())
    print(f"{lines} rows in quarantine, see {REPORTS / 'validation'}; Data Docs: {docs}")


def _tell(validated: Findings, expectations: Expectations) -> Path:
    """Report, Data Docs, and the counts in MLflow."""
    docs = expectations.publish()
    validated.report["data_docs"] = docs.as_posix()
    write_report(validated, REPORTS / "validation")
    now, digest = time.time(), folder_digest(RAW)
    points = [
        MetricPoint(f"{table}.{name}", float(entry[name]), 0, now)
        for table, entry in validated.report["tables"].items()
        for name in ("rows", "bad_rows", "bad_share")
    ]
    points += [
        MetricPoint(f"{table}.expectations_{name}", float(entry[name]), 0, now)
        for table, entry in validated.report["expectations"].items()
        for name in ("rows", "expectations", "broken")
    ]
    tags = {"log": digest, "data_docs": docs.as_posix()}
    try:
        log_points(EXPERIMENT, f"log {digest[:12]}", points, tags=tags)
    except MfcpError as error:
        print(f"warning: counts are in {REPORTS / 'validation'}, but not in MLflow: {error}", file=sys.stderr)
    return docs


if __name__ == "__main__":
    main(run)
