"""Deliveries of a few rows to a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from platform_deliveries import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")
