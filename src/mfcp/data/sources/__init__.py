"""Where logs come from: one file per format, each a `Source` that reads tables in the log schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mfcp.registry import Registered

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables


class Source(Registered):
    """A log: settings that say where it is, and how to read it."""

    def read(self, seed: int) -> Tables:
        """The log's tables.

        Args:
            seed: of a log that is emulated; a recorded one ignores it.

        Raises:
            DataError: the log is missing or damaged.
        """
        raise NotImplementedError

    def write(self, seed: int, folder: Path, scratch: Path) -> dict[str, int]:
        """Write the log's tables to a folder; rows of each.

        Args:
            seed: as `read`.
            folder: an empty one.
            scratch: a folder for what a killed run has finished, for sources that go on from there.

        Raises:
            DataError: as `read`, or a folder cannot be written.
        """
        from mfcp.data.log.tables import write_tables

        tables = self.read(seed)
        write_tables(tables, folder)
        return {name: len(table) for name, table in tables.items()}
