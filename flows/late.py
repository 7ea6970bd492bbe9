"""Runs that are late: where worker or server were away, one run does the work of all that were due meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mfcp.environment import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import get_client  # noqa: E402
from prefect.client.schemas.filters import FlowRunFilter  # noqa: E402
from prefect.states import Cancelled  # noqa: E402

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.schemas.objects import FlowRun, State


def stand_in(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Hook `on_running`: cancel late runs of the same deployment and parameters that only a schedule has asked for.

    Each would start a process to find nothing left to do, and keep what people and alarms have asked for waiting for a
    slot of the worker. Prefect's own limits of concurrency would do it, but a run that is killed keeps its place there
    until a lease ends, and nothing is matched meanwhile.
    """
    if flow_run.deployment_id is None:
        return
    wanted: dict[str, Any] = {
        "deployment_id": {"any_": [flow_run.deployment_id]},
        "state": {"name": {"any_": ["Late"]}},
    }
    with get_client(sync_client=True) as client:
        for late in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(wanted)):
            if late.auto_scheduled and late.parameters == flow_run.parameters:
                client.set_flow_run_state(late.id, Cancelled(message=f"late; {flow_run.name} does its work"))
