"""Stage validate: data/raw → data/valid, with offending rows and reasons in data/reports/validation."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.log.tables import read_tables, write_tables
from mfcp.data.log.validation import TooManyBadRowsError, validate, write_report
from mfcp.files import replacing_folder
from mfcp.progress import progress
from mfcp.settings import Settings
from mfcp.stages.base import RAW, REPORTS, VALID, main


class ValidateSettings(BaseModel):
    """Section `validate` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_bad_share: float = Field(0.05, ge=0, le=1, description="largest tolerated share of bad rows of a table")


def run(settings: Settings) -> None:
    """Check every row of the raw tables and keep the good ones."""
    section: ValidateSettings = settings.section("validate")
    try:
        with progress("validate"):
            validated = validate(read_tables(RAW), max_bad_share=section.max_bad_share)
    except TooManyBadRowsError as error:  # the rows and reasons are what a person needs now
        write_report(error.validated, REPORTS / "validation")
        raise
    write_report(validated, REPORTS / "validation")
    with replacing_folder(VALID) as folder:
        write_tables(validated.tables, folder)
    print(f"{len(validated.quarantine)} rows in quarantine, see {REPORTS / 'validation'}")


if __name__ == "__main__":
    main(run)
