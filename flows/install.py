"""A platform on a Prefect server that runs already: its folder, work pool, deployments and schedules.

`python -m flows.install` in the checkout does it, as often as one likes: what is there is brought up to date. It is
what the worker's unit of docs/how-to/deploy.md runs first; `make platform` does the same by itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flows import loop, service, workspace
from mfcp.errors import guarded
from mfcp.platform.state.home import home_folder, settings


def install(root: Path, home: Path, port: int) -> list[str]:
    """Make or update all of it; a line for each flow and how often it runs.

    Args:
        root: checkout whose flows run.
        home: the platform's folder, made if missing.
        port: of the Prefect server.

    Raises:
        MfcpError: no server answers there in time, no checkout, or changes that conflict with the platform's own.
    """
    service.wait_until(f"http://{service.HOST}:{port}/api/health")
    workspace.make_home(root, home)
    service.make_pool(root, home / "prefect", port)
    service.deploy(root, home / "prefect", port, list(loop.FLOWS))
    every = settings(home).section("platform").every_s.model_dump()
    with loop.client(home, port) as found:
        for name, seconds in every.items():
            loop.schedule(found, name, seconds)
    return [f"{loop.FLOWS[name]} every {seconds:g} s" if seconds else f"{loop.FLOWS[name]} when asked"
            for name, seconds in every.items()]  # fmt: skip


def main() -> None:
    """Install the platform of MFCP_HOME on the server of PREFECT_PORT."""
    home = home_folder()
    for line in install(Path.cwd(), home, service.port_of(service.PREFECT_PORT)):
        print(line)
    print(f"the platform's folder is {home}")


if __name__ == "__main__":
    sys.exit(guarded(main))
