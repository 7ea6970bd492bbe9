"""What became of the platform's predictions, and a training where the world has changed, as a Prefect flow."""

from __future__ import annotations

from mfcp.telemetry import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import flow, get_run_logger  # noqa: E402
from prefect.deployments import run_deployment  # noqa: E402
from prefect.events import emit_event  # noqa: E402
from prefect.exceptions import ObjectNotFound  # noqa: E402

from flows import workspace  # noqa: E402
from flows.match import send  # noqa: E402
from mfcp.platform.home import home_folder, open_store, settings  # noqa: E402
from mfcp.platform.models import Models  # noqa: E402
from mfcp.platform.monitoring import Health, look, record  # noqa: E402


@flow(name="mfcp-monitor", persist_result=False)
def monitor(home: str = "", deployment: str = "mfcp-retrain/retrain", lock_wait_s: float = 60.0) -> dict[str, float]:
    """Compare what was predicted with what came back; a new alarm is an event and asks once for a training.

    Args:
        home: the platform's folder; empty for MFCP_HOME, else `platform`.
        deployment: that trains.
        lock_wait_s: seconds to wait while deliveries are taken in.

    Returns:
        The figures, see `mfcp.platform.monitoring`.
    """
    folder, logger = home_folder(home), get_run_logger()
    store = open_store(folder)
    log = workspace.read_log(folder, lock_wait_s)
    health = look(store, log, Models(folder, store).current(), settings(folder).section("platform").monitor)
    for alarm in health.alarms:
        logger.warning("drift: %s", alarm.key)
        told = {"stream": alarm.stream, "at": alarm.at}
        emit_event("mfcp.drift", {"prefect.resource.id": f"mfcp.stream.{alarm.stream.replace(' ', '-')}"}, payload=told)
    record(store, health, requested=bool(health.retrain) and _asked(health, deployment))
    logger.info(
        "%s", ", ".join(f"{name} {value:.4g}" for name, value in health.figures.items()) or "nothing is back yet"
    )
    send(folder, store)
    return health.figures


def _asked(health: Health, deployment: str) -> bool:
    """Whether a training was asked for; asked again after a kill, Prefect knows the run by its key."""
    key = f"{health.newest} {health.retrain[0]}"
    try:
        run = run_deployment(deployment, timeout=0, idempotency_key=key)
    except (ObjectNotFound, ValueError) as error:
        get_run_logger().error("drift, but no training: deployment '%s' (%s); run flow mfcp-retrain", deployment, error)
        return False
    get_run_logger().warning("drift: training asked for as %s", run.name)  # type: ignore[union-attr]
    return True


if __name__ == "__main__":
    monitor()
