"""The embedded default: raw logs of an emulated platform, behind the same door as real ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mfcp.data.sources import Source
from mfcp.emulator.settings import EmulatorSettings

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables


class EmulatorSource(EmulatorSettings, Source):
    """Emulate the logs; the fields are those of `EmulatorSettings`, the model is told in docs/emulator.md."""

    name: ClassVar[str] = "emulator"

    def read(self, seed: int) -> Tables:
        """The emulated tables; the same settings, files and seed give the same ones.

        Raises:
            DataError: the folder `measured` or the file `calibration` is missing or damaged.
        """
        from mfcp.data.log.tables import read_tables
        from mfcp.emulator.efficiency import load
        from mfcp.emulator.measured import Measured
        from mfcp.emulator.platform import emulate

        measured = None
        if self.measured:
            tables = read_tables(Path(self.measured))
            measured = Measured(tables["tasks"], tables["clusters"], tables["runs"])
        calibrated = load(Path(self.calibration)) if self.calibration else None
        return emulate(self, seed, measured=measured, calibrated=calibrated)
