import pytest

from mfcp.emulator.platform import EmulatorSettings, emulate

SMALL = EmulatorSettings(tasks=24, families=("resnet", "mobilenet_v2", "vit", "bert", "t5"))


@pytest.fixture(scope="session")
def small():
    """A small platform: 24 tasks of five families on all clusters."""
    return emulate(SMALL, seed=0)
