"""The platform's pipeline stage by stage on its newest log, and the release that comes out, as a Prefect flow."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from mfcp.environment import switch_off

switch_off()  # before Prefect is imported: it reads its settings then

from prefect import flow, get_run_logger  # noqa: E402

from flows import checkout, workspace  # noqa: E402
from flows.late import stand_in  # noqa: E402
from flows.pipeline import reproduce  # noqa: E402
from mfcp.errors import DataError  # noqa: E402
from mfcp.platform.releases.models import Models  # noqa: E402
from mfcp.platform.state.home import LOG, home_folder, open_store  # noqa: E402
from mfcp.platform.state.store import Note  # noqa: E402
from mfcp.release.model import verify  # noqa: E402

TARGET = "release"
RELEASE = Path("data") / "release"


@flow(name="mfcp-retrain", persist_result=False, on_running=[stand_in])
def retrain(
    home: str = "",
    promote: bool = True,
    retries: int = 1,
    retry_delay_s: float = 30.0,
    stage_timeout_s: float | None = None,
    lock_wait_s: float = 60.0,
) -> str:
    """Train on the newest log in the platform's own clone, enter the release as challenger, and judge it.

    Args:
        home: the platform's folder; empty for MFCP_HOME, else `platform`.
        promote: whether flow `mfcp-promote` follows at once.
        retries: how often a stage that was killed or failed by itself is tried again; bad data and settings are not.
        retry_delay_s: seconds before it is.
        stage_timeout_s: a stage that takes longer is ended, with everything it started.
        lock_wait_s: seconds to wait while another run trains.

    Returns:
        Version of the release.
    """
    folder = home_folder(home)
    logger = get_run_logger()
    run = reproduce.with_options(retries=retries, retry_delay_seconds=retry_delay_s, retry_condition_fn=_may_help)
    with workspace.working(folder, lock_wait_s) as work:
        version = train(folder, work, lambda stage: run(stage, work, stage_timeout_s))
    logger.info("release %s is trained", version)
    if promote:
        from flows.promote import promote as judge

        judge(home=str(folder))
    return version


def train(home: Path, work: Path, run: Callable[[str], str]) -> str:
    """Run the stages that lead to a release, keep their state as an experiment of DVC, and enter the release.

    Done again it does nothing new: DVC skips what is unchanged, and the same release keeps its version.

    Args:
        home: the platform's folder.
        work: its clone to train in, locked and up to date.
        run: runs one stage; "ran", "restored" or "unchanged".

    Returns:
        Version of the release.
    """
    begin = time.monotonic()
    stages = checkout.stages(work, [TARGET])
    outcomes = Counter(map(run, stages))
    version = verify(work / RELEASE)
    workspace.dvc(work, "exp", "save", "--force", "--name", f"release-{version}", *stages)  # the others never ran here
    seconds = time.monotonic() - begin
    store = open_store(home)
    facts = {"retrain.seconds": seconds, "retrain.ran": outcomes["ran"], "retrain.restored": outcomes["restored"]}
    known = version in set(store.models()["version"])
    Models(home, store).add(work / RELEASE, facts)
    content = {"version": version, "known": known, **_based_on(work)}
    store.post([Note(name, float(value), content=content) for name, value in facts.items()])
    return version


def _based_on(work: Path) -> dict[str, str]:
    """Digest of the log and commit that a training saw."""
    try:
        (out,) = yaml.safe_load((work / f"{LOG}.dvc").read_text(encoding="utf-8"))["outs"]
        return {"log": str(out["md5"]), "commit": workspace.git(work, "rev-parse", "HEAD").strip()}
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise DataError(f"{work / LOG}.dvc: not a file of DVC ({error}); restore it from git") from None


def _may_help(task: Any, task_run: Any, state: Any) -> bool:
    """Whether a stage should be tried again: not when it said (exit code 2) that its data or settings are wrong."""
    error = state.result(raise_on_failure=False)
    return not (isinstance(error, checkout.StageError) and re.search(r"exited with 2\b", str(error)))


if __name__ == "__main__":
    retrain()
