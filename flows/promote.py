"""The platform's challenger against its champion, as a Prefect flow."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mfcp.environment import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import flow, get_run_logger  # noqa: E402
from prefect.events import emit_event  # noqa: E402

from flows import workspace  # noqa: E402
from flows.match import send  # noqa: E402
from mfcp.data.log.tables import Tables  # noqa: E402
from mfcp.platform.deciding.outbox import mirror  # noqa: E402
from mfcp.platform.releases.models import Models  # noqa: E402
from mfcp.platform.releases.promotion import promotion  # noqa: E402
from mfcp.platform.state.home import home_folder, open_store, settings  # noqa: E402


@flow(name="mfcp-promote", persist_result=False)
def promote(home: str = "", lock_wait_s: float = 60.0) -> dict[str, Any]:
    """Judge the challenger on the newest log and promote it if it is significantly better; else say why not.

    Args:
        home: the platform's folder; empty for MFCP_HOME, else `platform`.
        lock_wait_s: seconds to wait while deliveries are taken in.

    Returns:
        Fields of `mfcp.platform.releases.promotion.Verdict`.
    """
    folder, logger = home_folder(home), get_run_logger()
    store = open_store(folder)
    models, params = Models(folder, store), settings(folder)

    def log() -> Tables:
        from mfcp.data.log.validation import validate

        limit = params.section("validate").max_bad_share
        return validate(workspace.read_log(folder, lock_wait_s), max_bad_share=limit).tables

    before, section = models.current(), params.section("platform")
    verdict = promotion(models, log, section.promote, section.match.gamma)
    logger.info("%s: %s", "promoted" if verdict.promote else "not promoted", verdict.why)
    if verdict.promote:
        told = {"version": models.current() or "", "before": before or "", "why": verdict.why}
        emit_event("mfcp.promoted", {"prefect.resource.id": f"mfcp.release.{told['version']}"}, payload=told)
    send(folder, store)
    if failure := mirror(models, folder):
        logger.warning("releases are not in MLflow's registry yet: %s", failure)
    return asdict(verdict)


if __name__ == "__main__":
    promote()
