"""A toy checkout, and one Prefect server for all flow tests; nothing else in the tests starts a server."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flow_process import FlowProcess
from running import Prefect
from slurm_here import slurm  # noqa: F401

from flows import service
from mfcp import environment

REPOSITORY = Path(__file__).parents[2]
# What a machine may have set for other servers: a proxy, and a Prefect whose database nobody can open.
ELSEWHERE = {
    "http_proxy": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "PREFECT_SERVER_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:////nowhere/prefect.db",
}
DVC_YAML = """\
stages:
  last: {cmd: cat middle other > last, deps: [middle, other], outs: [last]}
  middle: {cmd: echo at work in $DVC_STAGE; cat first > middle, deps: [first], outs: [middle]}
  other: {cmd: cat first first > other, deps: [first], outs: [other]}
  first: {cmd: cat source > first; echo asked by $MFCP_FLOW_RUN, deps: [source], outs: [first]}
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A DVC repository of four stages, written against their order, with the repository's own flows beside it."""
    root = tmp_path / "toy"
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc" / "config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    (root / "dvc.yaml").write_text(DVC_YAML)
    (root / "source").write_text("one\n")
    shutil.copytree(REPOSITORY / "flows", root / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    return root


OPEN = ExitStack()
SHARED: dict[str, Any] = {}


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The server ends with the last flow test, not with the last of all: idle, it takes processor time as well."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        _close()


def pytest_sessionfinish() -> None:
    """Also where a session is broken off."""
    _close()


def _close() -> None:
    SHARED.clear()
    OPEN.close()


@pytest.fixture
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Prefect:
    """A Prefect server of the tests' own, on a free port of this machine; one for flow tests in a row."""
    if "prefect" not in SHARED:
        home = tmp_path_factory.mktemp("prefect")
        (port,) = service.free_ports(1)
        patch = OPEN.enter_context(pytest.MonkeyPatch.context())
        for name, value in ELSEWHERE.items():
            patch.setenv(name, value)
        environment.without_proxy()
        SHARED["prefect"] = Prefect(home, port, OPEN.enter_context(service.server(home, port)))
    return SHARED["prefect"]


@pytest.fixture
def flow_process(prefect: Prefect, tmp_path_factory: pytest.TempPathFactory) -> FlowProcess:
    """A process that runs flows against that server."""
    if "process" not in SHARED:
        SHARED["process"] = FlowProcess(prefect, tmp_path_factory.mktemp("flows"))
        OPEN.callback(SHARED["process"].end)
    return SHARED["process"]
