"""From validated logs to a release: all clusters, one split by time, the production method."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Ints
from mfcp.data.pool.building import build_pool
from mfcp.data.pool.splits import split_tasks
from mfcp.data.pool.task_pool import TaskPool
from mfcp.errors import SettingsError
from mfcp.methods.pretrain import epochs, pretrain
from mfcp.release.model import Release, write_release
from mfcp.study.featurize import PoolFeatures
from mfcp.study.reference import solved_setting
from mfcp.study.scaling import Scale
from mfcp.study.setting import PARTS
from mfcp.study.study_data import Study

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables
    from mfcp.methods.base import Method
    from mfcp.settings import Settings

PLATFORM = "platform"  # the setting of all clusters


class ReleaseSettings(BaseModel):
    """Section `release` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    method: str = Field("mfcp_x", description="label under methods")
    seed: int = Field(0, ge=0)
    held_back: float = Field(0.15, ge=0, lt=1, description="share of tasks, the newest, on which releases are compared")
    validation: float = Field(0.2, gt=0, lt=1, description="share of the others on which training stops and rules tune")


def fit_release(
    tables: Tables,
    settings: Settings,
    folder: Path,
    *,
    data: dict[str, Any],
    advance: Callable[[], Any] = lambda: None,
) -> Release:
    """Train the production method on a log and write it to a folder.

    The newest tasks are held back: a release that replaces another must have shown on tasks that neither has seen
    that it decides better. Of all others the labels are learned, those of validation families too, as everywhere.

    Args:
        tables: the validated log.
        settings: sections pool, featurize (its encoder), matching, pretrain, finetune, evaluate, methods, release.
        folder: where it is written, whole or not at all.
        data: where the log comes from, kept with the release.
        advance: called `steps(settings)` times.

    Raises:
        SettingsError: the method is no row of `methods`.
        DataError: too few tasks.
    """
    section: ReleaseSettings = settings.section("release")
    method = _method(settings, section)
    pool = build_pool(tables, settings.section("pool"), seed=section.seed)
    split = _split(tables, pool, section)
    train, seen = split == PARTS["train"], split != PARTS["test"]
    described = PoolFeatures.of(tables, pool, settings.section("featurize"))
    encoded = described.encode(train, section.seed)
    operators, times = described.operator_times(seen, section.seed)
    advance()
    study = Study.of_all_clusters(pool, PLATFORM, section.seed, split, encoded.Z, encoded.names, times)
    price = settings.section("evaluate").shortfall_price
    setting = solved_setting(study, PLATFORM, settings.section("matching"), price=price)
    base = pretrain(setting, settings.section("pretrain"), advance=advance)
    trained = method.fit(setting, base, settings.section("finetune"), advance=advance)
    facts = {"tasks": int(seen.sum()), "runs": int(setting.runs[:, seen].sum()), "emulated": list(pool.emulated)}
    write_release(
        folder,
        trained,
        setting,
        encoder=encoded.encoder,
        operators=operators,
        feature_names=encoded.names,
        scale=Scale.of(encoded.Z[None], train[None]),
        learned_from=np.unique(pool.source_task[seen]).tolist(),
        data=data | facts,
    )
    return Release.load(folder)


def steps(settings: Settings) -> int:
    """How often `fit_release` calls `advance`."""
    method = _method(settings, settings.section("release"))
    return 1 + epochs(settings.section("pretrain")) + method.steps(settings.section("finetune"))


def _method(settings: Settings, section: ReleaseSettings) -> Method:
    if section.method not in settings.methods:
        raise SettingsError(
            f"release.method: no row '{section.method}' under methods; known: {', '.join(settings.methods)}"
        )
    return settings.methods[section.method]


def _split(tables: Tables, pool: TaskPool, section: ReleaseSettings) -> Ints:
    """(n,) part of each task: the newest by first run are test tasks, families of the others train or validation.

    A task without a known time of its first run counts as new.
    """
    started = pd.to_datetime(tables["runs"]["started_at"], utc=True)
    first = started.groupby(tables["runs"]["task_id"]).min()
    tasks = pd.Series(np.unique(pool.source_task))
    order = tasks.iloc[np.argsort(tasks.map(first).to_numpy("datetime64[ns]"), kind="stable")]
    newest = order.iloc[len(order) - round(section.held_back * len(order)) :]
    split = np.full(len(pool.task_id), PARTS["test"])
    old = ~np.isin(pool.source_task, newest.to_numpy(str))
    split[old] = split_tasks(pool.select(tasks=old), section.seed, (1 - section.validation, section.validation))
    return split.astype(np.int64)
