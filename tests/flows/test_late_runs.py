"""Late runs against a real server: a run that starts stands in for those that only a schedule has asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prefect import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import IntervalSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Late
from running import Prefect, until

from flows.late import stand_in
from flows.match import match

pytestmark = pytest.mark.xdist_group("prefect")


def test_one_run_does_the_work_of_all_that_were_due(prefect: Prefect) -> None:
    with temporary_settings({PREFECT_API_URL: prefect.api}), get_client(sync_client=True) as client:
        schedule = DeploymentScheduleCreate(schedule=IntervalSchedule(interval=timedelta(hours=1)), active=True)
        number = client.create_deployment(client.create_flow(match), "late", schedules=[schedule])
        wanted: dict[str, Any] = {"deployment_id": {"any_": [number]}}

        def runs() -> list[FlowRun]:
            return client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(wanted))

        until(lambda: len(runs()) >= 3, "the schedule's runs", 90)
        due = runs()[:2]
        asked, starts = (client.create_flow_run_from_deployment(number) for _ in range(2))
        for one in (*due, asked):
            client.set_flow_run_state(one.id, Late(scheduled_time=datetime.now(UTC) - timedelta(minutes=5)), force=True)
        waiting = {one.id for one in runs()} - {one.id for one in due}

        other = client.create_flow_run_from_deployment(number, parameters={"deliver_from": 1})
        stand_in(match, other, other.state)  # another work than theirs
        assert not any(one.state is not None and one.state.is_cancelled() for one in runs())
        stand_in(match, starts, starts.state)

        states = {one.id: one.state for one in runs()}
        for one in due:
            assert states[one.id].is_cancelled()
            assert starts.name in states[one.id].message
        assert states[asked.id].name == "Late"  # somebody asked for it
        assert not any(states[one].is_cancelled() for one in waiting)
        client.delete_deployment(number)


def test_a_run_without_a_deployment_stands_in_for_nobody() -> None:
    stand_in(match, FlowRun(flow_id="00000000-0000-0000-0000-000000000000", deployment_id=None), None)
