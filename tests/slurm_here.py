"""Two Slurm clusters on loopback for a session of tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.slurm import OwnCluster, OwnSlurm, missing


@pytest.fixture(scope="session")
def slurm() -> Iterator[OwnSlurm]:
    """alpha and beta, of two cores each."""
    if why := missing():
        pytest.skip(why)
    root = Path(tempfile.mkdtemp(prefix="mfcp-slurm-"))  # short: sockets' paths are
    try:
        with OwnSlurm(root, [OwnCluster("alpha", cpus=2), OwnCluster("beta", cpus=2)]) as started:
            yield started
    finally:
        shutil.rmtree(root, ignore_errors=True)
