"""The small simulated platform, its graphs captured once."""

import shutil

import pytest
from platform_simulated import SETTINGS

from mfcp.platform.simulation.world import World


@pytest.fixture(scope="session")
def graphs(tmp_path_factory):
    """The folder that the world keeps captured graphs in."""
    return tmp_path_factory.mktemp("world") / "simulator"


@pytest.fixture(scope="session")
def world(graphs):
    return World(SETTINGS, graphs)


@pytest.fixture
def home(tmp_path, world, graphs):
    """A home that has the captured graphs already."""
    shutil.copytree(graphs, tmp_path / "simulator")
    return tmp_path
