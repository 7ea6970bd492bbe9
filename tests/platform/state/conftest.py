"""Stores on SQLite and PostgreSQL, and a few tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from platform_stores import new_database, url

from mfcp.platform.state.store import Store


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store in a file, and one on a server."""
    if request.param == "sqlite":
        return Store(url(tmp_path), wait_s=5)
    return Store(new_database(request.getfixturevalue("postgres")), wait_s=5)
