"""A folder of tables in the log schema (docs/data.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from mfcp.data.sources import Source

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables


class Folder(Source):
    """Parquet, CSV or JSON Lines files, one a table."""

    name: ClassVar[str] = "folder"
    path: str = Field(min_length=1, description="folder with tasks, clusters and runs")

    def read(self, seed: int) -> Tables:
        """The folder's tables; nothing is drawn."""
        from mfcp.data.log.tables import read_tables

        return read_tables(Path(self.path))

    def write(self, seed: int, folder: Path, scratch: Path) -> dict[str, int]:
        """Copied table by table, runs in blocks: they may be more than the memory holds."""
        from mfcp.data.log.copying import copy_log

        return copy_log(Path(self.path), folder, scratch)
