"""From a validated log to a release: all clusters, one split by time, the production method; only what was logged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import stdtrit

from mfcp.arrays import Bools, Floats, Ints
from mfcp.data.pool.coverage import Coverage, refuse_thin
from mfcp.data.pool.logged import logged_pool
from mfcp.data.pool.run_totals import totalled, totals_of
from mfcp.data.pool.splits import split_tasks
from mfcp.data.pool.task_pool import TaskPool
from mfcp.data.pool.times import run_spread
from mfcp.errors import DataError, MfcpError, SettingsError
from mfcp.files import UnwritableError
from mfcp.methods.base import FinetuneSettings
from mfcp.methods.pretrain import Pretrained, PretrainSettings, epochs, pretrain
from mfcp.predictors.calibration import calibrate
from mfcp.release.evidence import RUN_NOISE
from mfcp.release.known_tasks import LEAST_SD, KnownTasks, common_variance
from mfcp.release.memory_limits import MemoryLimits
from mfcp.release.model import MANIFEST, Release, write_release
from mfcp.study.featurize import PoolFeatures
from mfcp.study.reference import with_gamma
from mfcp.study.setting import PARTS, Setting
from mfcp.study.study_data import Study
from mfcp.tasks.features.feature_scale import Scale

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables
    from mfcp.methods.base import Method, Trained
    from mfcp.settings import Settings

PLATFORM = "platform"  # the setting of all clusters
FEW_TASKS = 20  # below, all tasks are learned: there would be too few to compare releases on
_PRIOR_RUNS = 5
_FACTORS = (0.5, 2.0)  # of the spread, at most
_DONORS = 512  # tasks kept to stand in for what a new task does not state


class ReleaseSettings(BaseModel):
    """Section `release` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    method: str = Field("mfcp_x", description="label under methods")
    seed: int = Field(0, ge=0)
    held_back: float = Field(
        0.15, ge=0, lt=1, description="share of tasks, the newest, on which releases are compared; of fewer than 20, 0"
    )
    validation: float = Field(0.2, gt=0, lt=1, description="share of the others on which training stops and rules tune")
    finetune: FinetuneSettings = Field(
        FinetuneSettings(), description="as section `finetune`, whose trials leave releases alone"
    )


def fit_release(
    tables: Tables,
    settings: Settings,
    folder: Path,
    *,
    data: dict[str, Any],
    advance: Callable[[], Any] = lambda: None,
) -> Release:
    """Train the production method on a log and write it to a folder.

    Times are logged seconds and reliabilities counted outcomes (`mfcp.data.pool.logged`); nothing is drawn. Where no
    run failed, reliability is unknown and the release asks for no gamma.

    The newest tasks are held back: a release that replaces another must have shown on tasks that neither has seen
    that it decides better. Of all others the labels are learned, those of validation families too, as everywhere.

    Args:
        tables: the validated log.
        settings: sections featurize (its encoder), matching, pretrain, evaluate, methods, release.
        folder: where it is written, whole or not at all.
        data: what the log is called and its digest, kept with the release.
        advance: called `steps(settings)` times.

    Raises:
        SettingsError: the method is no row of `methods`.
        DataError: too few tasks or clusters, naming all that is missing.
    """
    with replacing_release(folder):
        return _fit(tables, settings, folder, data, advance)


def _fit(tables: Tables, settings: Settings, folder: Path, data: dict[str, Any], advance: Callable[[], Any]) -> Release:
    section: ReleaseSettings = settings.section("release")
    method = _method(settings, section)
    tables = totalled(tables)
    refuse_thin(Coverage.of(tables), benchmark=False, where=str(data.get("name", "log")))
    pool = logged_pool(tables)
    split = _split(tables, pool, section)
    train, seen = split == PARTS["train"], split != PARTS["test"]
    described = PoolFeatures.of(tables, pool, settings.section("featurize"))
    encoded = described.encode(train, section.seed)
    operators, times = described.operator_times(seen, section.seed)
    advance()
    study = Study.of_all_clusters(pool, PLATFORM, section.seed, split, encoded.Z, encoded.names, times)
    setting = _setting(study, settings)
    base = pretrain(setting, _needed(settings, method), advance=advance)
    trained = _with_spread(
        method.fit(setting, base, settings.section("release").finetune, advance=advance), base, setting
    )
    groups = len(np.unique(setting.group[seen]))
    trained = _on_newest(trained, setting, groups)
    scale = Scale.of(encoded.Z[None], train[None])
    learned = pool.select(tasks=seen)
    donors = np.unique(np.linspace(0, len(learned.task_id) - 1, _DONORS).round().astype(np.int64))
    usual = float(trained.calibration.own_sd.mean()) or 0.1
    write_release(
        folder,
        trained,
        setting,
        encoder=encoded.encoder,
        operators=operators,
        feature_names=encoded.names,
        scale=scale,
        known=KnownTasks.of(tables, learned, usual),
        donors=scale.apply(encoded.Z[seen])[0][donors],
        donor_model=_models(tables, learned)[donors].tolist(),
        pool=pool,
        groups=groups,
        learned_from=np.unique(pool.source_task[seen]).tolist(),
        run_noise=_run_noise(tables, pool),
        memory=MemoryLimits.learn(tables, setting.cluster_id, frozenset(pool.source_task[seen].tolist())),
        data=data | facts_of(tables, pool, seen),
    )
    return Release.load(folder)


@contextmanager
def replacing_release(folder: Path) -> Iterator[None]:
    """Room for a release: the earlier one decides until the new one is whole, and is moved aside where the log no
    longer makes one, so that it is not taken for new.

    Raises:
        DataError: the folder holds something else than a release; or what the block raises, which then says where the
            earlier release is.
    """
    aside = folder.with_name(f"{folder.name}.previous")
    there = folder.is_dir() and any(folder.iterdir())
    if folder.exists() and not (folder.is_dir() and (not there or (folder / MANIFEST).is_file())):
        raise DataError(f"{folder}: holds something else than a release; choose another folder")
    try:
        yield
    except UnwritableError:  # that is not the log's fault
        raise
    except MfcpError as error:
        if there:
            shutil.rmtree(aside, ignore_errors=True)
            folder.rename(aside)
            raise type(error)(f"{error}; no release is in {folder} now, the earlier one is in {aside}") from None
        raise
    if there:
        shutil.rmtree(aside, ignore_errors=True)


def steps(settings: Settings) -> int:
    """How often `fit_release` calls `advance`."""
    method = _method(settings, settings.section("release"))
    return 1 + epochs(_needed(settings, method)) + method.steps(settings.section("release").finetune)


def facts_of(tables: Tables, pool: TaskPool, seen: Bools) -> dict[str, Any]:
    """What every answer of a release says of its log: when, how much, behind each cluster, and what is not measured."""
    totals = totals_of(tables)
    own = tables["tasks"]["task_id"].isin(pool.source_task[seen].tolist()).to_numpy()  # of the others nothing is told
    counts = pd.Series(totals.finished[:, own].sum(axis=1), tables["clusters"]["cluster_id"])
    ends = pd.Timestamp(np.fmin.reduce(totals.first[own])), pd.Timestamp(np.fmax.reduce(totals.last[own]))
    dates = [None if pd.isna(end) else end.strftime("%Y-%m-%d") for end in ends]
    return {
        "first_run": dates[0],
        "last_run": dates[1],
        "tasks": int(seen.sum()),
        "held_back": int((~seen).sum()),
        "runs": int(counts.sum()),
        "runs_per_cluster": {str(name): int(counts.get(name, 0)) for name in pool.cluster_id},
        "emulated": list(pool.emulated),
    }


def _needed(settings: Settings, method: Method) -> PretrainSettings:
    """What of pretraining the method asks for; the rest would be trained for nothing."""
    section: PretrainSettings = settings.section("pretrain")
    return section.model_copy(update=method.needs(section))


def _setting(study: Study, settings: Settings) -> Setting:
    """The setting of all clusters, with gamma from rounds of all learned tasks, or 0 where it means nothing."""
    price = settings.section("evaluate").shortfall_price
    setting = study.setting(PLATFORM, settings.section("matching"), price=price)
    if not study.pool.reliability_known:
        return replace(setting, gamma=np.zeros(1))
    return replace(setting, gamma=with_gamma(replace(setting, A=_shrunk(setting)), "train", "validation").gamma)


def _shrunk(setting: Setting) -> Floats:
    """(M, n) success shares as if each pair had five more runs like the mean of its cluster: 3 of 3 are not certain."""
    runs = np.where(setting.allowed, setting.runs, 0)
    won = np.where(setting.allowed, np.nan_to_num(setting.A) * runs, 0.0)
    mean = (won.sum(axis=1, keepdims=True) + 1) / (runs.sum(axis=1, keepdims=True) + 2)
    return np.where(setting.allowed, (won + _PRIOR_RUNS * mean) / (runs + _PRIOR_RUNS), np.nan)


def _on_newest(trained: Trained, setting: Setting, groups: int) -> Trained:
    """With intervals that heed the newest tasks, which nothing was learned from, where there are enough of them.

    Errors out of fold are those of families that nobody has seen, by parts that learned from fewer tasks; the tasks
    that come next are more like the newest. The scale is the one at which 80 % of the newest lie inside, to the power
    n / (n + G) of n such tasks and G groups out of fold: what either says counts by how many say it. What plans are
    charged for, the part that clusters do not share, stays as it is: releases are compared on these tasks.
    """
    known = setting.mask("test")[0]
    count = int(known.any(axis=0).sum())
    if count < FEW_TASKS:
        return trained
    T, _ = trained.predict(setting)
    off = np.abs(np.log(np.where(known, setting.T / T[0], 1.0))) / trained.calibration.log_sd[0][:, None]
    factor = np.quantile(off[known], 0.8) / stdtrit(max(groups - 1, 1), 0.9)
    scale = float(np.clip(factor, *_FACTORS)) ** (count / (count + groups))
    spread = trained.calibration
    return replace(trained, calibration=replace(spread, log_sd=spread.log_sd * scale))


def _with_spread(trained: Trained, base: Pretrained, setting: Setting) -> Trained:
    """With the spread that every answer states, also of a method whose rule does not ask for one.

    Heads have that of their cross-fitted kind; what learns a mean only, that about its training tasks.
    """
    if trained.calibration.log_sd.any():
        return trained
    if base.calibration:
        return replace(trained, calibration=next(iter(base.calibration.values())))
    T, A = trained.predict(setting)
    known = setting.mask("train") | setting.mask("validation")
    return replace(trained, calibration=calibrate(np.log(T), A, setting.T, setting.A, setting.runs, known))


def _run_noise(tables: Tables, pool: TaskPool) -> float:
    """Deviation of the log time of a run, from pairs that ran more than once."""
    square, count = run_spread(tables, pool.cluster_id, pool.source_task)
    variance = common_variance(np.nan_to_num(square), np.maximum(count - 1, 0), RUN_NOISE**2)
    return float(np.clip(np.sqrt(variance), LEAST_SD, 1.0))


def _models(tables: Tables, pool: TaskPool) -> Any:
    models = tables["tasks"].set_index("task_id")["model"].reindex(pool.source_task.tolist())
    return models.astype(object).where(models.notna(), "").to_numpy(str)


def _method(settings: Settings, section: ReleaseSettings) -> Method:
    if section.method not in settings.methods:
        raise SettingsError(
            f"release.method: no row '{section.method}' under methods; known: {', '.join(settings.methods)}"
        )
    return settings.methods[section.method]


def _split(tables: Tables, pool: TaskPool, section: ReleaseSettings) -> Ints:
    """(n,) part of each task: the newest by first run are test tasks, families of the others train or validation.

    A task without a known time of its first run counts as new. A small log holds nothing back.
    """
    first = pd.Series(totals_of(tables).first, tables["tasks"]["task_id"])
    tasks = pd.Series(np.unique(pool.source_task))
    order = tasks.iloc[np.argsort(tasks.map(first).to_numpy("datetime64[ns]"), kind="stable")]
    held = round(section.held_back * len(order)) if len(order) >= FEW_TASKS else 0
    newest = order.iloc[len(order) - held :]
    split = np.full(len(pool.task_id), PARTS["test"])
    old = ~np.isin(pool.source_task, newest.to_numpy(str))
    validation = max(section.validation, 2 / (old.sum() + 1)) if old.sum() < FEW_TASKS else section.validation
    validation = min(validation, 0.5)
    split[old] = split_tasks(pool.select(tasks=old), section.seed, (1 - validation, validation))
    return split.astype(np.int64)
