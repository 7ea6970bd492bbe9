"""Rules of a clock as values."""

import pytest

from mfcp.errors import SettingsError
from mfcp.simulator.semantics import PRESETS, preset


def test_presets_and_their_changes():
    assert preset("muri") == PRESETS["muri"]
    assert preset("muri", running_first=True).running_first
    with pytest.raises(SettingsError, match="semantics 'mury': known are plain, muri"):
        preset("mury")
