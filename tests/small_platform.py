"""A small emulated platform, made once for the tests of every room that need one: import the fixtures in a conftest."""

import pytest

from mfcp.emulator import zoo
from mfcp.emulator.platform import EmulatorSettings, drawn_variants, emulate

SMALL = EmulatorSettings(tasks=24, families=("resnet", "mobilenet_v2", "vit", "bert", "t5"))


@pytest.fixture(scope="session")
def graphs():
    """Nodes and edges of the models of the small platform."""
    return zoo.capture_all({v.graph_id: v for v in drawn_variants(SMALL, 0)}.values())


@pytest.fixture(scope="session")
def small(graphs):
    """A small platform: 24 tasks of five families on all clusters."""
    return emulate(SMALL, seed=0, graphs=graphs)
