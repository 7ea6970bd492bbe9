"""What is assigned to real clusters, as jobs there, as a Prefect flow."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from mfcp.environment import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import flow, get_run_logger  # noqa: E402

from flows.late import stand_in  # noqa: E402
from mfcp.files import locked  # noqa: E402
from mfcp.platform.running.runner import Runner, Step  # noqa: E402
from mfcp.platform.state.home import home_folder, open_store, settings  # noqa: E402


@flow(name="mfcp-run", persist_result=False, on_running=[stand_in])
def run(home: str = "", stay_s: float = 60.0) -> dict[str, Any]:
    """Hand in what is assigned to the clusters of section platform.clusters, watch it, and bring its runs back.

    There is nothing to retry: all state is in the database and on the clusters, and the next run goes on from there.

    Args:
        home: the platform's folder; empty for MFCP_HOME, else `platform`.
        stay_s: seconds that this run looks at the clusters before the next one takes over.

    Returns:
        Fields of `mfcp.platform.running.runner.Step`, summed over what this run did.
    """
    folder, logger = home_folder(home), get_run_logger()
    section = settings(folder).section("platform")
    total = Step()
    if not section.clusters:
        logger.warning("platform.clusters names no real cluster: there is nothing to run")
        return asdict(total)
    with locked(folder / ".running", wait_s=max(stay_s, 1.0) * 2):  # the run before it hands over
        runner = Runner(folder, open_store(folder), section.clusters, section.run)
        silent: dict[str, str] = {}
        until = time.monotonic() + stay_s
        while True:
            step = runner.step()
            if step.news or step.silent != silent:
                (logger.warning if step.silent else logger.info)("%s", step)
            silent = step.silent
            total.add(step)
            if time.monotonic() >= until:
                break
            time.sleep(section.run.poll_s)
    return asdict(total)


if __name__ == "__main__":
    run()
