"""The embedded default: raw logs of an emulated platform, behind the same door as real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mfcp.data.sources import Source
from mfcp.emulator.settings import EmulatorSettings

if TYPE_CHECKING:
    from mfcp.data.tables import Tables


class EmulatorSource(EmulatorSettings, Source):
    """Emulate the logs; the fields are those of `EmulatorSettings`, the model is told in docs/emulator.md."""

    name: ClassVar[str] = "emulator"

    def read(self, seed: int) -> Tables:
        """The emulated tables; the same settings and seed give the same ones."""
        from mfcp.emulator.platform import emulate

        return emulate(self, seed)
