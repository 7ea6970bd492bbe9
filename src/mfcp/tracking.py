"""Experiment tracking: the only importer of MLflow, and that only when something is logged."""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import yaml

from mfcp.errors import MfcpError
from mfcp.files import sqlite_url
from mfcp.progress import progress as bar

if TYPE_CHECKING:
    from mlflow import MlflowClient

STORE = "mlruns/mlflow.db"
ARTIFACTS = "mlruns/artifacts"
BATCH = 800  # MLflow takes at most 1000 entities in one request, the first of which also carries the params
TAG_LENGTH = 5000  # characters that every store of MLflow takes
LOCK_WAIT_S = 10.0

FLOW_RUN = "MFCP_FLOW_RUN"  # variable that a flow sets for the stages that it starts
PIPELINE = "mfcp"  # experiment of the pipeline's comparison of methods


@dataclass(frozen=True)
class SeedResult:
    """One seed of one method in one setting.

    Args:
        seed: the seed.
        metrics: metric → value, named as in metrics.json.
        history: curve → its values by step (training loss, validation cost, …).
    """

    seed: int
    metrics: Mapping[str, float]
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class MethodResult:
    """One method in one setting, aggregated over its seeds.

    Args:
        setting: label of the setting (A, B, C).
        method: label of the method, as in params.yaml.
        params: settings of the method; nested mappings become dotted names.
        metrics: aggregated values: `regret.mean`, `regret.std`, `regret.ci_low`, ….
        seeds: the seeds behind them.
        artifacts: files to keep with the run (figures, tables).
    """

    setting: str
    method: str
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    seeds: Sequence[SeedResult]
    artifacts: Sequence[Path] = ()


def checkout(root: Path | None = None) -> Path:
    """The checkout whose `mlruns/` is meant: DVC_ROOT, else `root`, else the nearest dvc.yaml above the working folder.

    DVC_ROOT comes first because `dvc exp run --temp` works in a copy that is deleted afterwards.
    """
    if os.environ.get("DVC_ROOT"):
        return Path(os.environ["DVC_ROOT"]).resolve()
    if root is not None:
        return Path(root).resolve()
    here = Path.cwd().resolve()
    return next((folder for folder in (here, *here.parents) if (folder / "dvc.yaml").is_file()), here)


def tracking_uri(root: Path | None = None) -> str:
    """MLFLOW_TRACKING_URI if set, else the SQLite store of the checkout.

    Raises:
        SettingsError: as `mfcp.files.sqlite_url`.
    """
    return os.environ.get("MLFLOW_TRACKING_URI") or sqlite_url(checkout(root) / STORE)


def log_results(
    experiment: str,
    results: Sequence[MethodResult],
    *,
    tags: Mapping[str, str],
    methods: Mapping[str, Mapping[str, float]] | None = None,
    root: Path | None = None,
    progress: bool = False,
) -> None:
    """Log a parent run per setting and method, named `setting/method`, with a child run per seed.

    With `methods` there is one run per method at the top, tagged `level` = method, and the others lie below it.
    A value that is not finite is left out and counted in the run's tag `metrics.skipped`.

    Args:
        experiment: name of the experiment, made if missing.
        results: one entry per setting and method.
        tags: tags of every run: git commit, hashes of the data.
        methods: method → the few values that its own run shows; every method of `results` is among them.
        root: the checkout, see `checkout`.
        progress: show a progress bar.

    Raises:
        MfcpError: the store is locked, read-only, damaged or out of reach; what was logged before stays.
    """
    uri = tracking_uri(root)
    with _explaining(uri), bar("logging to MLflow", len(results)) if progress else nullcontext(lambda: None) as advance:
        _check_sqlite(uri)
        client, experiment_id = _open(uri, experiment, checkout(root))
        for method, metrics in (methods or {}).items():
            own = [result for result in results if result.method == method]
            labels = {**tags, "method": method, "level": "method"}
            params = own[0].params if own else {}
            with _run(client, experiment_id, method, labels, metrics, params=params) as top:
                for result in own:
                    _log_method(client, experiment_id, result, {**tags, "mlflow.parentRunId": top})
                    advance()
        if methods is None:
            for result in results:
                _log_method(client, experiment_id, result, tags)
                advance()


def attach(experiment: str, path: Path, *, root: Path | None = None) -> int:
    """Put a file beside the newest run of every method of an experiment, as an artifact; how many runs have it now.

    Args:
        experiment: name of the experiment, whose runs were logged with `methods`.
        path: of the file.
        root: the checkout, see `checkout`.

    Raises:
        MfcpError: the store is locked, read-only, damaged or out of reach.
    """
    uri = tracking_uri(root)
    with _explaining(uri):
        _check_sqlite(uri)
        client, experiment_id = _open(uri, experiment, checkout(root))
        runs = client.search_runs([experiment_id], "tags.level = 'method'", order_by=["attributes.start_time DESC"])
        newest = {run.data.tags["method"]: run.info.run_id for run in reversed(runs)}
        for run_id in newest.values():
            client.log_artifact(run_id, str(path))
    return len(newest)


def methods_page(experiment: str, root: Path | None = None) -> str:
    """The part of an address, behind MLflow's own, of the page that compares the methods of an experiment.

    Best first by `excess_vs_tsm`, a chart for each of the few values. The list of experiments where there is none yet,
    or where the store cannot be read: MLflow's server then says why.

    Args:
        experiment: name of the experiment, whose runs were logged with `methods`.
        root: the checkout, see `checkout`.
    """
    found = None
    with suppress(sqlite3.Error), closing(sqlite3.connect(checkout(root) / STORE)) as connection:
        found = connection.execute("SELECT experiment_id FROM experiments WHERE name = ?", (experiment,)).fetchone()
    if found is None:
        return "/#/experiments"
    view = {"searchFilter": "tags.level = 'method'", "orderByKey": "metrics.`excess_vs_tsm`", "orderByAsc": "true"}
    return f"/#/experiments/{found[0]}/runs?" + urlencode(
        view | {"startTime": "ALL", "compareRunsMode": "CHART"}, quote_via=quote
    )


def methods_address(experiment: str) -> str:
    """The whole address of `methods_page`: at the server that runs are tracked by, else where `make ui` shows them."""
    uri = tracking_uri()
    server = uri if uri.startswith("http") else f"http://127.0.0.1:{os.environ.get('MLFLOW_PORT') or 5000}"
    return server.rstrip("/") + methods_page(experiment)


@dataclass(frozen=True)
class MetricPoint:
    """One value of a metric that grows for as long as a platform runs.

    Args:
        name: metric.
        value: finite.
        step: unique among the points of a run: the same point twice is kept once.
        at: seconds since the epoch.
    """

    name: str
    value: float
    step: int
    at: float


def log_points(
    experiment: str, run: str, points: Sequence[MetricPoint], *, tags: Mapping[str, str], root: Path | None = None
) -> None:
    """Add points to a named run, made if missing; points that are there already stay single.

    Args:
        experiment: name of the experiment, made if missing.
        run: name of the run.
        points: what to add.
        tags: set on the run, over those it has.
        root: the folder whose `mlruns/` is meant, see `checkout`.

    Raises:
        MfcpError: the store is locked, read-only, damaged or out of reach; some of the points may be there.
    """
    uri = tracking_uri(root)
    with _explaining(uri):
        _check_sqlite(uri)
        client, experiment_id = _open(uri, experiment, checkout(root))
        from mlflow.entities import Metric, RunTag

        run_id = _run_named(client, experiment_id, run)
        values = [Metric(point.name, point.value, int(point.at * 1000), point.step) for point in points]
        labels = [RunTag(key, value[:TAG_LENGTH]) for key, value in tags.items()]
        client.log_batch(run_id, metrics=values[:BATCH], tags=labels[:100])
        for start in range(BATCH, len(values), BATCH):
            client.log_batch(run_id, metrics=values[start : start + BATCH])
        client.set_terminated(run_id, "FINISHED")  # nothing computes; its end says when the last point came


def register_releases(
    experiment: str,
    name: str,
    releases: Mapping[str, Path],
    aliases: Mapping[str, str | None],
    *,
    root: Path | None = None,
) -> None:
    """Mirror releases in the model registry: a version each, with its files, and the aliases as they are now.

    Args:
        experiment: whose runs hold the files.
        name: of the registered model, made if missing.
        releases: version → folder; those that are registered already are not sent again.
        aliases: alias → version, or None where nothing has it; unknown versions are passed over.
        root: the folder whose `mlruns/` is meant, see `checkout`.

    Raises:
        MfcpError: the store is locked, read-only, damaged or out of reach; some of it may be done.
    """
    uri = tracking_uri(root)
    with _explaining(uri):
        _check_sqlite(uri)
        client, experiment_id = _open(uri, experiment, checkout(root))
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        known = {str(v.tags.get("release")): v for v in client.search_model_versions(f"name = '{name}'")}
        for version, folder in releases.items():
            if version not in known:
                run = _run_named(client, experiment_id, f"release {version}")
                client.log_artifacts(run, str(folder), "release")
                client.set_terminated(run, "FINISHED")
                source = f"{client.get_run(run).info.artifact_uri}/release"
                known[version] = client.create_model_version(name, source, run, tags={"release": version})
        current = client.get_registered_model(name).aliases
        for alias, wanted in aliases.items():
            number = str(known[wanted].version) if wanted in known else None
            if number is None and alias in current:
                client.delete_registered_model_alias(name, alias)
            elif number is not None and str(current.get(alias)) != number:
                client.set_registered_model_alias(name, alias, number)


def _run_named(client: MlflowClient, experiment_id: str, name: str) -> str:
    """The run of this name; the oldest one, where two processes made one at the same time."""

    def oldest() -> list[str]:
        found = client.search_runs(
            [experiment_id], f"attributes.run_name = '{name}'", max_results=1, order_by=["attributes.start_time ASC"]
        )
        return [str(run.info.run_id) for run in found]

    if not (found := oldest()):
        client.create_run(experiment_id, run_name=name)
        found = oldest()
    return found[0]


def git_tags(root: Path) -> dict[str, str]:
    """`git.commit` and `git.dirty` (true | false) of a checkout; empty where there is no git or no commit.

    dvc.lock does not count: the run that asks is writing it.
    """
    commands = (["rev-parse", "HEAD"], ["status", "--porcelain", "--", ":!dvc.lock"])
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True, timeout=30).stdout
            for command in commands
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"git.commit": commit.strip(), "git.dirty": "true" if changes.strip() else "false"}


def origin_tags() -> dict[str, str]:
    """What asked for this run: `prefect.flow_run`, address of a flow run, and `dvc.exp`, name of an experiment."""
    named = {"prefect.flow_run": FLOW_RUN, "dvc.exp": "DVC_EXP_NAME"}
    return {tag: os.environ[variable] for tag, variable in named.items() if os.environ.get(variable)}


def dvc_hashes(root: Path, outs: Sequence[str]) -> dict[str, str]:
    """`dvc.<name>.md5` for each of these outputs that dvc.lock knows, `<name>` being the path's stem.

    Args:
        root: the checkout.
        outs: paths as they stand in dvc.yaml, for instance `data/features`.

    Raises:
        MfcpError: dvc.lock cannot be read.
    """
    path = Path(root) / "dvc.lock"
    if not path.is_file():
        return {}
    try:
        stages = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("stages", {})
        known = {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", []) if "md5" in out}
    except (yaml.YAMLError, AttributeError, TypeError, KeyError) as error:
        raise MfcpError(f"{path}: not a lock file of DVC ({error}); restore it from git") from None
    return {f"dvc.{Path(out).stem}.md5": known[out] for out in outs if out in known}


def _log_method(client: MlflowClient, experiment_id: str, result: MethodResult, tags: Mapping[str, str]) -> None:
    """The parent run first, so that a failure half-way leaves a FAILED parent that says so."""
    labels = {**tags, "setting": result.setting, "method": result.method}
    name = f"{result.setting}/{result.method}"
    with _run(client, experiment_id, name, labels, result.metrics, params=result.params) as parent:
        for path in result.artifacts:
            client.log_artifact(parent, str(path))
        for seed in result.seeds:
            child = {**labels, "seed": str(seed.seed), "mlflow.parentRunId": parent}
            with _run(client, experiment_id, f"{name}/{seed.seed}", child, seed.metrics, history=seed.history):
                pass


@contextmanager
def _run(
    client: MlflowClient,
    experiment_id: str,
    name: str,
    tags: Mapping[str, str],
    metrics: Mapping[str, float],
    *,
    params: Mapping[str, Any] | None = None,
    history: Mapping[str, Sequence[float]] | None = None,
) -> Iterator[str]:
    """A run with all its values, FINISHED when the block ends and FAILED when it raises."""
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    points = [(key, value, 0) for key, value in metrics.items()]
    points += [(key, value, step) for key, curve in (history or {}).items() for step, value in enumerate(curve)]
    finite = [Metric(key, float(value), now, step) for key, value, step in points if math.isfinite(value)]
    skipped = len(points) - len(finite)
    run = client.create_run(
        experiment_id, run_name=name, tags={**tags, **({"metrics.skipped": str(skipped)} if skipped else {})}
    )
    run_id: str = run.info.run_id
    try:
        flat = [Param(key, str(value)) for key, value in _flatten(params or {})]
        client.log_batch(run_id, metrics=finite[:BATCH], params=flat)
        for start in range(BATCH, len(finite), BATCH):
            client.log_batch(run_id, metrics=finite[start : start + BATCH])
        yield run_id
    except BaseException:
        client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id, "FINISHED")


def _flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in params.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _open(uri: str, experiment: str, root: Path) -> tuple[MlflowClient, str]:
    """Client and experiment id; a store of our own keeps its artifacts beside its database."""
    # A server that does not answer should cost seconds, not MLflow's default of minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    from mlflow import MlflowClient

    for name in ("mlflow.store.db.utils", "alembic"):  # "creating tables" is no news to the user
        logging.getLogger(name).setLevel(logging.WARNING)
    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        own = uri == f"sqlite:///{root / STORE}"
        location = (root / ARTIFACTS).as_uri() if own else None
        return client, str(client.create_experiment(experiment, artifact_location=location))
    if found.lifecycle_stage == "deleted":  # deleted in the pages: its name stays taken, so bring it back
        client.restore_experiment(found.experiment_id)
    return client, str(found.experiment_id)


def _check_sqlite(uri: str) -> None:
    """Open the database for writing once: MLflow itself would retry for minutes and then raise a page of text."""
    if not uri.startswith("sqlite:///"):
        return
    path = Path(uri.removeprefix("sqlite:///"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=LOCK_WAIT_S)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


@contextmanager
def _explaining(uri: str) -> Iterator[None]:
    """Any failure of the store as one line that names it and the remedy."""
    try:
        yield
    except MfcpError:
        raise
    except Exception as error:
        if not isinstance(error, OSError | sqlite3.Error) and not type(error).__module__.startswith(
            ("mlflow", "sqlalchemy", "requests", "alembic")
        ):
            raise
        reason = " ".join(str(error).split())[:300]
        raise MfcpError(
            f"tracking store {uri}: cannot log there ({type(error).__name__}: {reason}); close other writers, make its "
            "folder writable, start its server, or point MLFLOW_TRACKING_URI elsewhere"
        ) from error
