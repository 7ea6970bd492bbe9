"""A round of the platform's pending tasks, as a Prefect flow."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from mfcp.environment import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import flow, get_run_logger  # noqa: E402
from prefect.events import emit_event  # noqa: E402

from flows.late import stand_in  # noqa: E402
from mfcp.platform.deciding.outbox import deliver  # noqa: E402
from mfcp.platform.deciding.rounds import match_round  # noqa: E402
from mfcp.platform.releases.models import Models  # noqa: E402
from mfcp.platform.state.home import home_folder, log_folder, open_store, settings  # noqa: E402
from mfcp.platform.state.store import Store  # noqa: E402


@flow(name="mfcp-match", persist_result=False, on_running=[stand_in])
def match(home: str = "", deliver_from: int = 25) -> dict[str, Any]:
    """Assign what is pending, by the champion, under section platform.match of the platform's params.yaml.

    There is nothing to retry: the database is waited for, and what this run does not assign the next one does.

    Args:
        home: the platform's folder; empty for MFCP_HOME, else `platform`.
        deliver_from: metrics and events that wait before they are sent: the import of MLflow costs more than a round.

    Returns:
        Fields of `mfcp.platform.deciding.rounds.RoundReport`.
    """
    folder, logger = home_folder(home), get_run_logger()
    store = open_store(folder)
    models = Models(folder, store)
    report = match_round(store, models, settings(folder).section("platform").match, log_folder(folder))
    if report.unread:
        logger.warning("finished runs could not be read and did not count: %s", report.unread)
    (logger.info if report.status in ("optimal", "feasible", "idle", "measuring") else logger.warning)("%s", report)
    if report.version != models.current():
        told = {"version": models.current() or "", "instead": report.version or ""}
        logger.warning("champion %(version)s is damaged; %(instead)s decides instead", told)
        emit_event("mfcp.model-refused", {"prefect.resource.id": f"mfcp.release.{told['version']}"}, payload=told)
    if report.set_aside:
        where = {"prefect.resource.id": f"mfcp.platform.{folder.name}"}
        emit_event("mfcp.tasks-set-aside", where, payload={"tasks": report.set_aside})
    if store.counts()["outbox"] >= deliver_from:
        send(folder, store)
    return asdict(report)


def send(folder: Path, store: Store) -> None:
    """What waits in the outbox to MLflow; one that is down is a warning, since nothing is lost."""
    delivered = deliver(store, folder)
    logger = get_run_logger()
    (logger.warning if delivered.error else logger.info)("%s", delivered)


if __name__ == "__main__":
    match()
