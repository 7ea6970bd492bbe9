"""Deliveries into the platform's log, as a Prefect flow."""

from __future__ import annotations

from collections import Counter

from mfcp.environment import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import flow, get_run_logger  # noqa: E402

from flows import workspace  # noqa: E402
from flows.checkout import only_one  # noqa: E402
from flows.late import stand_in  # noqa: E402
from mfcp.data.log.expectations import FOLDER, Expectations  # noqa: E402
from mfcp.platform.intake import inbox  # noqa: E402
from mfcp.platform.state.home import LOG, home_folder, open_store  # noqa: E402


@flow(name="mfcp-ingest", persist_result=False, on_running=[stand_in])
def ingest(home: str = "", lock_wait_s: float = 60.0) -> dict[str, int]:
    """Take what waits in the inbox into the log, its rows or the delivery itself into quarantine where they are bad.

    There is nothing to retry: the database is waited for, and what is left in the inbox comes with the next run.

    Args:
        home: the platform's folder; empty for MFCP_HOME, else `platform`.
        lock_wait_s: seconds to wait while another run is at it.

    Returns:
        status of `mfcp.platform.intake.inbox.Delivery` → deliveries.
    """
    folder = home_folder(home)
    repo = workspace.repo_of(folder)
    logger = get_run_logger()
    with only_one(repo, lock_wait_s):
        store, expectations = open_store(folder), Expectations(repo / FOLDER)
        done = inbox.ingest(
            folder, repo / LOG, store, lambda message: workspace.commit_log(repo, message), expectations
        )
        if expectations.report:
            logger.info("Data Docs: %s", expectations.publish())
    for one in done:
        report = logger.info if one.status in ("taken", "known") else logger.warning
        report("%s: %s, rows %s, in quarantine %s %s", one.name, one.status, one.rows, one.refused, one.why)
    return dict(Counter(one.status for one in done))


if __name__ == "__main__":
    ingest()
