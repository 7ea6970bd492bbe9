"""Releases, and the service over a real socket."""

import pytest
from platform_log import misled, small_release
from platform_served import LOG, NEW, ready, serving, until

from mfcp.platform.releases.models import Models
from mfcp.platform.service.champion import Champion
from mfcp.platform.service.protocol import ServeSettings
from mfcp.platform.state.store import Store
from mfcp.release.model import Release


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Two releases' folders."""
    folder = tmp_path_factory.mktemp("releases")
    small_release(folder / "one", LOG)
    small_release(folder / "two", misled(LOG))
    return folder / "one", folder / "two"


@pytest.fixture(scope="module")
def release(releases):
    return Release.load(releases[0])


@pytest.fixture(scope="module")
def platform(tmp_path_factory, releases):
    """A home whose store knows the graphs of the new tasks, and a champion."""
    home = tmp_path_factory.mktemp("home")
    store = Store(f"sqlite:///{home}/platform.db")
    store.submit({name: NEW[name] for name in ("tasks", "nodes", "edges")})
    Models(home, store).add(releases[0], {})
    return home, store


@pytest.fixture(scope="module")
def client(platform):
    home, store = platform
    settings = ServeSettings(tasks=8, operators=50, body_mib=0.05)
    with serving(Champion.of_platform(home, store, graphs=100), settings) as client:
        until(lambda: ready(client))
        yield client
