"""Stage ingest: a source of logs → data/raw, tables of the log schema."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.sources import Source
from mfcp.files import replacing_folder
from mfcp.progress import progress
from mfcp.registry import FamilyField, import_members
from mfcp.settings import Settings
from mfcp.stages.base import RAW, main

import_members("mfcp.data.sources")


class IngestSettings(BaseModel):
    """Section `ingest` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    source: FamilyField[Source]
    reads: str = Field("", description="file or folder that the source reads: a dependency of the stage in dvc.yaml")
    seed: int = Field(0, ge=0, description="seed of emulated logs")


def run(settings: Settings) -> None:
    """Read the source and write its tables."""
    section: IngestSettings = settings.section("ingest")
    with progress(f"ingest from {section.source.name}"), replacing_folder(RAW) as folder:
        rows = section.source.write(section.seed, folder, RAW.with_name(".raw.parts"))
    print(", ".join(f"{name}: {count} rows" for name, count in rows.items()))


if __name__ == "__main__":
    main(run)
