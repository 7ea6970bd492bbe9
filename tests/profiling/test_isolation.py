"""The server that forks a process for each run."""

import os
import sys

import pytest

from mfcp.emulator import zoo
from mfcp.errors import MfcpError
from mfcp.profiling import subjects
from mfcp.profiling.isolation import Isolation

pytestmark = pytest.mark.xdist_group("isolation")  # one worker makes what they share


@pytest.fixture(scope="module")
def isolation():
    """One server for all that do not need one of their own: each start takes seconds."""
    with Isolation() as isolation:
        yield isolation


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_what_forks_has_one_thread(isolation):
    told = isolation.run("places", {"device": "cpu"}, timeout=100).result
    assert isolation._server is not None
    assert len(os.listdir(f"/proc/{isolation._server.pid}/task")) == 1
    assert [place["device"] for place in told] == ["cpu"]


def test_a_broken_installation_is_no_failed_run(tmp_path, monkeypatch, capfd):
    (tmp_path / "transformers.py").write_text("raise ImportError('a broken package')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    model = {"zoo": next(iter(zoo.variants())).graph_id}
    with Isolation() as isolation, pytest.raises(MfcpError, match="code 1, for a reason of this installation"):
        isolation.run("graph", {"model": model}, timeout=100)
    assert "a broken package" in capfd.readouterr().err


def test_a_server_that_the_kernel_took_costs_its_run(isolation):
    isolation._server.kill()
    isolation._server.wait()
    lost = isolation.run("places", {"device": "cpu"}, timeout=100)
    assert (lost.status, lost.error) == ("failed", "the process that starts runs ended with code -9")
    assert isolation.run("places", {"device": "cpu"}, timeout=100).status == "succeeded"


def test_what_the_zoo_needs_is_asked_for_first(monkeypatch):
    monkeypatch.setattr(subjects, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError) as error:
        subjects.subjects(["zoo:bert"], [])
    assert error.value.name == "transformers"
