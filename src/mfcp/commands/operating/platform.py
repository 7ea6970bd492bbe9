"""`mfcp platform`: what a platform is doing, tasks into it, plans out of it, and which release decides."""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.errors import DataError, SettingsError
from mfcp.progress import console

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from mfcp.platform.releases.models import Models
    from mfcp.platform.state.store import Store

ROUNDS, DELIVERIES = 10, 5  # shown


def add_parser(commands: Any) -> None:
    """The sub-command with its own sub-commands."""
    parser = commands.add_parser(
        "platform",
        help="a running platform: its state, its tasks and plans, its champion",
        description="Speaks to the platform in --home, else in MFCP_HOME, else in ./platform, whether or not its flows "
        "run at the moment.",
    )
    parser.add_argument("--home", default="", metavar="DIR", help="folder of the platform")
    own: Any = parser.add_subparsers(metavar="COMMAND", required=True)

    status = own.add_parser("status", help="pending tasks, last rounds, releases, deliveries, metrics that wait")
    status.add_argument("--wide", action="store_true", help="every column; without it, those that fit 80 characters")
    status.add_argument("--json", action="store_true", help="everything as JSON")
    status.set_defaults(run=_status)
    submit = own.add_parser("submit", help="hand in tasks for the next round; those that are known stay as they are")
    submit.add_argument(
        "--tasks", type=Path, required=True, metavar="PATH",
        help="table tasks (.csv, .jsonl, .parquet), or a folder with it and the graphs: nodes, edges",
    )  # fmt: skip
    for name, kind, what in (
        ("seconds", float, "wall clock of a run at most"), ("memory-gib", float, "memory of a run at most"),
        ("cpus", int, "that a run gets"), ("gpus", int, "that a run gets"),
    ):  # fmt: skip
        submit.add_argument(f"--{name}", type=kind, metavar="N", help=f"on real clusters: {what} (platform.run)")
    submit.set_defaults(run=_submit)
    cancel = own.add_parser("cancel", help="take tasks out of the queue, or end their jobs on real clusters")
    cancel.add_argument("tasks", nargs="+", metavar="TASK", help="ids")
    cancel.set_defaults(run=_cancel)
    attempts = own.add_parser("attempts", help="runs of tasks on real clusters: where, under which job, how they ended")
    attempts.add_argument("--task", action="append", metavar="TASK", help="this task alone; may be given several times")
    attempts.add_argument("--json", action="store_true", help="everything as JSON")
    attempts.set_defaults(run=_attempts)
    promote = own.add_parser("promote", help="let a release decide from now on, without a comparison")
    promote.add_argument("version", metavar="VERSION", help="as shown by status")
    promote.set_defaults(run=_promote)
    rollback = own.add_parser("rollback", help="let the champion before this one decide again")
    rollback.set_defaults(run=_rollback)
    assignments = own.add_parser("assignments", help="which task goes to which cluster")
    assignments.add_argument("--round", type=int, metavar="ID", help="default: all rounds")
    assignments.add_argument("--out", type=Path, metavar="FILE", help=".csv or .json (default: JSON to the terminal)")
    assignments.add_argument("--as", dest="form", choices=("slurm", "kubernetes"),
                             help="as jobs in the folder --out: sbatch scripts, or manifests for Kueue")  # fmt: skip
    assignments.add_argument("--image", metavar="IMAGE", help="of the jobs of Kubernetes")
    assignments.set_defaults(run=_assignments)
    for command in own.choices.values():  # before the command or behind it, as people type
        command.add_argument("--home", default=argparse.SUPPRESS, metavar="DIR", help="folder of the platform")


def _open(options: argparse.Namespace) -> tuple[Store, Models]:
    from mfcp.platform.releases.models import Models
    from mfcp.platform.state.home import home_folder, open_store

    home = home_folder(options.home)
    store = open_store(home)
    return store, Models(home, store)


def _status(options: argparse.Namespace) -> None:

    store, models = _open(options)
    counts, late = store.counts(), store.undelivered(1)
    if options.json:
        print(_as_json(store, models, counts))
        return
    screen = console(200 if options.wide else None)
    screen.print(
        f"{models.folder.parent}: {counts['queue']} tasks pending, {counts['assignments']} assigned in "
        f"{counts['rounds']} rounds, {counts['set_aside']} set aside; offline: "
        f"{', '.join(sorted(store.offline())) or 'no cluster'}"
    )
    for told in _real_clusters(store):
        screen.print(told)
    screen.print(_rounds(store, options.wide))
    for line in _changes(store):
        screen.print(line, highlight=False)
    for table in (_releases(store, models), _deliveries(store)):
        screen.print(table)
    why = f"; the oldest since {_when(late['at'][0])}, {late['error'][0] or 'not tried yet'}" if len(late) else ""
    screen.print(f"metrics and events that wait for MLflow: {counts['outbox']}{why}", highlight=False)


def _real_clusters(store: Store) -> list[Table | str]:
    """How real clusters are and what runs there; nothing where there is none."""
    from mfcp.platform.state.attempts import Attempts

    attempts = Attempts(store)
    known, busy = attempts.health(), Counter(row["cluster_id"] for row in attempts.open())
    if not known:
        return []
    rows = [
        [row["cluster_id"], "up" if row["up"] else "away", busy[row["cluster_id"]],
         _number(row["backlog_s"], ".0f"), _when(row["at"])[5:], row["why"] or ""]
        for row in known
    ]  # fmt: skip
    return [_table("real clusters", ("cluster", "state", "attempts", "backlog [s]", "asked, UTC", "why"), rows)]


def _attempts(options: argparse.Namespace) -> None:
    import json

    from mfcp.platform.state.attempts import Attempts

    store, _ = _open(options)
    rows = Attempts(store).of(options.task)
    if options.json:
        print(json.dumps(rows))
        return
    cells = [
        [row["task_id"], row["number"], row["cluster_id"], row["job"] or "-", row["status"] or row["state"],
         _number((row["receipt"] or {}).get("wall_s"), ".1f"), row["why"] or ""]
        for row in rows
    ]  # fmt: skip
    console().print(_table("attempts", ("task", "number", "cluster", "job", "status", "took [s]", "why"), cells))


def _cancel(options: argparse.Namespace) -> None:
    from mfcp.platform.state.attempts import Attempts

    store, _ = _open(options)
    known = set(store.tables(options.tasks)["tasks"]["task_id"])
    if unknown := sorted(set(options.tasks) - known):
        raise DataError(f"{', '.join(unknown)}: no such task here; see `mfcp platform attempts`")
    waiting = set(store.pending()["tasks"]["task_id"]) & known
    store.set_aside(dict.fromkeys(waiting, "cancelled"))
    asked = Attempts(store).cancel(sorted(known - waiting))
    print(f"{len(waiting)} taken out of the queue; {asked} asked to end where they run")


def _rounds(store: Store, wide: bool) -> Table:
    rows = [
        [
            row["round_id"], _when(row["matched_at"])[5:16], row["tasks"], row["status"],
            _number(row["makespan"], ".0f"), _number(row["gap"], ".1%"), _number(row["mean_reliability"], ".3f"),
            _number(row["gamma"], ".3f"),
            _number(row["took_s"], ".2f"), row["version"],
        ][: None if wide else 8]
        for row in store.rounds(ROUNDS).to_dict("records")
    ]  # fmt: skip
    titles = "round", "UTC", "tasks", "status", "makespan [s]", "gap", "reliability", "gamma", "took [s]", "release"
    return _table("last rounds", titles if wide else titles[:8], rows)


def _changes(store: Store) -> list[str]:
    """What another release has changed for the rounds shown: the gamma that is asked for."""
    rows = store.rounds(ROUNDS).sort_values("round_id")[["round_id", "version", "gamma"]].to_dict("records")
    return [
        f"From round {after['round_id']} on, release {after['version']} asks for {_asked(after)}, where "
        f"{before['version']} asked for {_asked(before)}."
        for before, after in pairwise(rows)
        if after["version"] != before["version"] and _asked(after) != _asked(before)
    ]


def _asked(row: dict[Any, Any]) -> str:
    gamma = row["gamma"]  # not known, or nan, where no run failed yet
    return "no gamma" if gamma is None or gamma != gamma else f"gamma {gamma:.3f}"


def _as_json(store: Store, models: Models, counts: dict[str, int]) -> str:
    """What status shows, as one object."""
    import json

    tables = {"rounds": store.rounds(ROUNDS), "releases": store.models(), "deliveries": store.deliveries(DELIVERIES)}
    content = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
    return json.dumps(
        {"home": str(models.folder.parent), "counts": counts, "offline": sorted(store.offline()),
         "champion": models.current(), "challenger": models.challenging(), **content}
    )  # fmt: skip


def _releases(store: Store, models: Models) -> Table:
    current, challenging = models.current(), models.challenging()
    crowned = store.champions().set_index("version")["why"]
    rows = []
    for row in store.models().to_dict("records"):
        version = row["version"]
        role = "champion" if version == current else "challenger" if version == challenging else ""
        damaged = _text(row["refused"])
        why = crowned.loc[[version]].iloc[-1] if version in crowned.index else ""
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in row["metrics"].items() if value is not None)
        rows.append([version, role, _when(row["added_at"])[5:16], f"refused: {damaged}" if damaged else why, metrics])
    return _table("releases", ("version", "role", "added, UTC", "why", "metrics"), rows)


def _deliveries(store: Store) -> Table:
    rows = [
        [row["name"], _when(row["received_at"])[5:16], row["status"], _listed(row["rows"]), _listed(row["quarantined"])]
        for row in store.deliveries(DELIVERIES).to_dict("records")
    ]
    return _table("last deliveries", ("file", "UTC", "status", "rows", "in quarantine"), rows)


def _table(title: str, columns: tuple[str, ...], rows: list[list[Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    caption = title if rows else f"{title}: none yet"
    table = Table(title=caption, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in columns:
        table.add_column(name.replace(" [", "\n["), overflow="fold", min_width=min(len(name.split()[0]), 12))
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    return table


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or value != value else format(value, form)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _listed(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "-"


def _submit(options: argparse.Namespace) -> None:
    from mfcp.data.log.tables import read_new_tasks
    from mfcp.data.log.zoo_tasks import with_zoo_models

    store, _ = _open(options)
    tables = with_zoo_models(read_new_tasks(options.tasks))
    new = store.submit(tables, limits=_limits(options))
    known = len(tables["tasks"]) - new
    print(f"{new} tasks submitted, {known} known already; {store.counts()['queue']} pending")


def _limits(options: argparse.Namespace) -> dict[str, float]:
    """What the options say of the runs of these tasks."""
    given = {name: getattr(options, name) for name in ("seconds", "cpus", "gpus")}
    given["memory_bytes"] = None if options.memory_gib is None else options.memory_gib * 2**30
    told = {name: value for name, value in given.items() if value is not None}
    for name, value in told.items():
        if not (0 if name == "gpus" else 1e-9) <= value < 1e16:
            raise SettingsError(
                f"--{name.replace('memory_bytes', 'memory-gib')}: expected a number above 0, got {value:g}"
            )
    return {name: value if name == "seconds" else int(value) for name, value in told.items()}


def _promote(options: argparse.Namespace) -> None:
    _, models = _open(options)
    models.promote(options.version, "by hand")
    print(f"champion: {options.version}")


def _rollback(options: argparse.Namespace) -> None:
    _, models = _open(options)
    before = models.current()
    print(f"champion: {models.rollback('by hand')} (before: {before})")


def _origins(store: Store) -> pd.DataFrame:
    """What each round's plan rests on: release, log, its last run, and what of it is not measured."""
    import pandas as pd

    rounds = store.rounds()
    data = [dict(own or {}) for own in rounds["data"]]
    return pd.DataFrame(
        {
            "round_id": rounds["round_id"],
            "release": rounds["version"],
            "log": [own.get("log") for own in data],
            "last_run": [own.get("last_run") for own in data],
            "emulated": [bool(own.get("emulated")) for own in data],
            "not_measured": ["; ".join(own.get("not_measured", [])) for own in data],
        }
    )


def _as_jobs(options: argparse.Namespace) -> None:
    """A round as scripts or manifests: what runs its tasks is what platform.run and platform.clusters say."""
    import yaml

    from mfcp.executors.base import JobLimits
    from mfcp.files import replacing_folder
    from mfcp.platform.running.exporting import PlannedTask, kubernetes_jobs, sbatch_scripts
    from mfcp.platform.running.job_settings import command_of, rows_of
    from mfcp.platform.state.home import home_folder, settings

    if options.round is None or options.out is None:
        raise SettingsError(f"--as {options.form}: needs --round ID and --out DIR, a new folder")
    if options.form == "kubernetes" and not options.image:
        raise SettingsError("--as kubernetes: needs --image IMAGE, in which the tasks run")
    if options.out.exists():
        raise SettingsError(f"--out {options.out}: is there already; name a new folder")
    store, _ = _open(options)
    section = settings(home_folder(options.home)).section("platform")
    found = store.assignments(round_id=options.round)
    if found.empty:
        raise DataError(f"round {options.round}: not known here; see `mfcp platform status`")
    names = [str(name) for name in found["task_id"]]
    known, own = rows_of(store.tables(names)), store.limits(names)
    plan = []
    for name, cluster in zip(names, found["cluster_id"], strict=True):
        limits = JobLimits(**section.run.limits | own.get(name, {}))
        template = section.clusters[cluster].command if cluster in section.clusters else ""
        command = command_of(template or section.run.command, known[name], cluster, 1, limits)
        plan.append(PlannedTask(name, cluster, command, limits))
    if options.form == "slurm":
        executors = {name: cluster.executor for name, cluster in section.clusters.items()}
        files = sbatch_scripts(plan, f"round-{options.round}", executors, section.run.array)
    else:
        jobs = kubernetes_jobs(plan, options.image)
        files = {"jobs.yaml": yaml.safe_dump_all(jobs, sort_keys=False)}
    with replacing_folder(options.out) as folder:
        for name, text in files.items():
            (folder / name).write_text(text)
    print(f"{len(plan)} tasks of round {options.round} → {', '.join(str(options.out / name) for name in files)}")


def _assignments(options: argparse.Namespace) -> None:
    from mfcp.files import replacing

    if options.form is not None:
        _as_jobs(options)
        return
    if options.out is not None and options.out.suffix not in (".csv", ".json"):
        raise SettingsError(f"--out {options.out}: expected a name that ends in .csv or .json")
    store, _ = _open(options)
    rows = store.assignments(round_id=options.round)
    if options.round is not None and rows.empty:
        raise DataError(f"round {options.round}: not known here; see `mfcp platform status`")
    rows = rows.merge(_origins(store), how="left", on="round_id")
    if options.out is None:
        print(rows.to_json(orient="records"))
        return
    with replacing(options.out) as temporary:
        if options.out.suffix == ".csv":
            rows.to_csv(temporary, index=False, float_format="%.6g")
        else:
            rows.to_json(temporary, orient="records")
    print(f"{len(rows)} assignments of {rows['round_id'].nunique()} rounds → {options.out}")
