"""The pipeline as a Prefect flow: one task per DVC stage, in DVC's own order."""

from __future__ import annotations

from pathlib import Path

from mfcp.environment import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import flow, get_run_logger, task  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402
from prefect.runtime import flow_run  # noqa: E402

from flows import checkout  # noqa: E402


@task(task_run_name="{stage}", cache_policy=NO_CACHE, persist_result=False)
def reproduce(stage: str, root: Path, timeout_s: float | None) -> str:
    """One stage through `dvc repro --single-item`; what is stale is DVC's decision alone."""
    logger = get_run_logger()
    asked_by = str(flow_run.ui_url or flow_run.id or "")
    outcome = checkout.reproduce(root, stage, log=logger.info, timeout_s=timeout_s, flow_run=asked_by)
    logger.info("stage '%s': %s", stage, outcome)
    return outcome


@flow(name="mfcp-pipeline", persist_result=False)
def pipeline(
    targets: list[str] | None = None,
    retries: int = 0,
    retry_delay_s: float = 30.0,
    stage_timeout_s: float | None = None,
    lock_wait_s: float = 60.0,
) -> dict[str, str]:
    """Bring the checkout in the working folder up to date, as `dvc repro` does.

    Args:
        targets: stages wanted, with what they depend on; None means all.
        retries: how often a failed stage is tried again.
        retry_delay_s: seconds before it is.
        stage_timeout_s: a stage that takes longer is ended, with everything it started.
        lock_wait_s: seconds to wait while another pipeline runs in this checkout.

    Returns:
        stage → "ran", "restored" or "unchanged".
    """
    root = Path.cwd()
    with checkout.only_one(root, lock_wait_s):
        run = reproduce.with_options(retries=retries, retry_delay_seconds=retry_delay_s)
        return {stage: run(stage, root, stage_timeout_s) for stage in checkout.stages(root, targets or ())}


if __name__ == "__main__":
    pipeline()
