"""The server that forks a process for each run."""

import os
import sys

import pytest

from mfcp.profiling.isolation import Isolation


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_what_forks_has_one_thread():
    with Isolation() as isolation:
        told = isolation.run("places", {"device": "cpu"}, timeout=100).result
        assert isolation._server is not None
        assert len(os.listdir(f"/proc/{isolation._server.pid}/task")) == 1
    assert [place["device"] for place in told] == ["cpu"]
