"""What became of the platform's predictions, and a training where the world has changed, as a Prefect flow."""

from __future__ import annotations

from uuid import UUID

from mfcp.environment import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import flow, get_client, get_run_logger  # noqa: E402
from prefect.deployments import run_deployment  # noqa: E402
from prefect.events import emit_event  # noqa: E402
from prefect.exceptions import ObjectNotFound  # noqa: E402

from flows import workspace  # noqa: E402
from flows.late import stand_in  # noqa: E402
from flows.match import send  # noqa: E402
from mfcp.platform.releases.models import Models  # noqa: E402
from mfcp.platform.releases.monitoring import Health, look, record  # noqa: E402
from mfcp.platform.state.home import home_folder, open_store, settings  # noqa: E402


@flow(name="mfcp-monitor", persist_result=False, on_running=[stand_in])
def monitor(home: str = "", deployment: str = "mfcp-retrain/retrain", lock_wait_s: float = 60.0) -> dict[str, float]:
    """Compare what was predicted with what came back; a new alarm is an event and asks once for a training.

    Args:
        home: the platform's folder; empty for MFCP_HOME, else `platform`.
        deployment: that trains.
        lock_wait_s: seconds to wait while deliveries are taken in.

    Returns:
        The figures, see `mfcp.platform.releases.monitoring`.
    """
    folder, logger = home_folder(home), get_run_logger()
    store = open_store(folder)
    log = workspace.read_log(folder, lock_wait_s)
    champion, section = Models(folder, store).current(), settings(folder).section("platform").monitor
    health = look(store, log, champion, section, failed=_failed)
    for alarm in health.alarms:
        logger.warning("drift: %s", alarm.key)
        told = {"stream": alarm.stream, "at": alarm.at}
        emit_event("mfcp.drift", {"prefect.resource.id": f"mfcp.stream.{alarm.stream.replace(' ', '-')}"}, payload=told)
    record(store, health, requested=_asked(health, deployment) if health.retrain else None)
    logger.info(
        "%s", ", ".join(f"{name} {value:.4g}" for name, value in health.figures.items()) or "nothing is back yet"
    )
    send(folder, store)
    return health.figures


def _asked(health: Health, deployment: str) -> str | None:
    """Id of the run that is to train, None where there is none; after a kill Prefect knows it by its key."""
    key = f"{health.newest} {health.requests}"
    try:
        run = run_deployment(deployment, timeout=0, idempotency_key=key)
    except (ObjectNotFound, ValueError) as error:
        get_run_logger().error("drift, but no training: deployment '%s' (%s); run flow mfcp-retrain", deployment, error)
        return None
    get_run_logger().warning("drift: training asked for as %s", run.name)  # type: ignore[union-attr]
    return str(run.id)  # type: ignore[union-attr]


def _failed(run: str) -> bool:
    """Whether a run has ended without success, or is not known any more."""
    with get_client(sync_client=True) as client:
        try:
            state = client.read_flow_run(UUID(run)).state
        except ObjectNotFound:
            return True
    return state is not None and state.is_final() and not state.is_completed()


if __name__ == "__main__":
    monitor()
