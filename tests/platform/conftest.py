"""A platform of its own for each test, and two releases for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from platform_log import misled, small_log, small_release

from mfcp.platform.store import Store


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a release that learned the truth."""
    folder = tmp_path_factory.mktemp("release") / "good"
    small_release(folder, small_log())
    return folder


@pytest.fixture(scope="session")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a release that learned from a log with its clusters mixed up."""
    folder = tmp_path_factory.mktemp("release") / "bad"
    small_release(folder, misled(small_log()))
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Folder of a platform."""
    return tmp_path


@pytest.fixture
def store(home: Path) -> Store:
    """Its empty database."""
    return Store(f"sqlite:///{home}/platform.db", wait_s=10)
