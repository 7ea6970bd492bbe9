"""Where logs come from: one file per format, each a `Source` that reads tables in the log schema."""

from __future__ import annotations

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
