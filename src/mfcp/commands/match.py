"""`mfcp match`: a round of new tasks, predicted and matched with a release; imports nothing heavy until it runs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.border.columns import column_width, padded
from mfcp.commands.reading import add_option, load_members
from mfcp.errors import SettingsError

if TYPE_CHECKING:
    from mfcp.platform.deciding.explaining import Explanation
    from mfcp.release.decision import Decision
    from mfcp.release.evidence import Mover
    from mfcp.release.measurements import Measuring, WorthMeasuring
    from mfcp.release.model import Release

_COLUMNS = ("seconds", "seconds_low", "seconds_high", "reliability", "reliability_low", "reliability_high")
_STATUS = {"short": "short of gamma"}
_SHOWN = 50  # tasks listed for a person
_EXPLAINED = 500  # tasks up to which every choice is explained without being asked


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "match",
        help="predict and match a round of new tasks with a release",
        description="Names one cluster for every task of a table, with predicted times and reliabilities, how far the "
        "plan can be from the best one, and why. Of a task its name is enough; what else is told of it (model, "
        "figures, graph) makes its interval narrower. `mfcp release` makes a release of a folder of logs.",
    )
    parser.add_argument(
        "--model", type=Path, required=True, metavar="DIR", help="a release, as `mfcp release` writes it"
    )
    parser.add_argument(
        "--tasks", type=Path, required=True, metavar="FILE",
        help="table tasks (.csv, .jsonl, .parquet), or a folder with it and the graphs (nodes, edges); a task_id is "
        "enough, and model zoo:ID (`mfcp capture --list`) stands for its figures and graph",
    )  # fmt: skip
    parser.add_argument("--engine", metavar="NAME", default="auto", help="default: auto, the release's own rule")
    parser.add_argument("--gamma", type=float, metavar="G", help="least mean reliability (default: the release's)")
    parser.add_argument("--clusters", metavar="a,b,…", help="clusters at hand (default: all that the release knows)")
    parser.add_argument(
        "--backlog",
        default="",
        metavar="a=S,…",
        help="clusters that are busy, and for how many seconds (default: none)",
    )
    parser.add_argument("--time-limit", type=float, default=10.0, metavar="S", help="seconds for engine and bound (10)")
    parser.add_argument("--explain", metavar="TASK", help="also print every cluster's case for this task")
    parser.add_argument(
        "--observed", type=Path, metavar="PATH",
        help="runs that ended since the release was made, of these or other tasks: a table runs, or a folder with it "
        "and the tasks that ran",
    )  # fmt: skip
    parser.add_argument(
        "--measure", type=int, metavar="K", help="also name up to K short measurements worth making before deciding"
    )
    parser.add_argument(
        "--measure-worth", type=float, metavar="W",
        help="also name all measurements that save more than W of the makespan (0.002 pays where they are quick)",
    )  # fmt: skip
    parser.add_argument(
        "--measure-start", type=float, default=30.0, metavar="S", help="seconds that a measurement takes to start (30)"
    )
    parser.add_argument("--measure-steps", type=int, default=20, metavar="N", help="steps of a measurement (20)")
    parser.add_argument(
        "--measure-out", type=Path, metavar="FILE",
        help="write them as a table runs, .csv: fill in step_time_s and give it to --observed",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=".json or .csv (default: JSON, or to a terminal a table)"
    )
    add_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read, decide, write."""
    from mfcp.compiling import prepare_ahead

    if options.engine in ("auto", "search"):
        prepare_ahead()
    from mfcp.data.log.tables import read_new_tasks
    from mfcp.data.log.zoo_tasks import with_zoo_models
    from mfcp.files import output_file
    from mfcp.release.decision import decide
    from mfcp.release.measurements import worth_measuring, write_answer_sheet
    from mfcp.release.model import Release
    from mfcp.release.observing import read_evidence

    if not options.time_limit > 0:
        raise SettingsError(f"--time-limit: expected seconds above 0, got {options.time_limit}")
    if options.out is not None and options.out.suffix not in (".json", ".csv"):
        raise SettingsError(f"--out {options.out}: expected a name that ends in .json or .csv")
    for path in (options.out, options.measure_out):
        if path is not None:
            output_file(path)
    load_members(options)
    clusters = None if options.clusters is None else {name.strip() for name in options.clusters.split(",")}
    measuring, backlog = _measuring(options), _backlog(options.backlog)
    release, tables = Release.load(options.model), with_zoo_models(read_new_tasks(options.tasks))
    for option, named in (("--clusters", clusters or set()), ("--backlog", set(backlog))):
        if unknown := sorted(named - set(release.cluster_id)):
            raise SettingsError(f"{option}: unknown '{unknown[0]}'; the release knows {', '.join(release.cluster_id)}")
    evidence = None if options.observed is None else read_evidence(release, tables, options.observed)
    decision = decide(
        release,
        tables,
        gamma=options.gamma,
        clusters=clusters,
        engine=options.engine,
        time_limit=options.time_limit,
        backlog=backlog,
        evidence=evidence,
    )
    if options.explain is not None:
        print(_explanations(release, decision, [options.explain])[0].text)
        for mover in decision.movers()[decision.task_id.index(options.explain)]:
            print(f"  moved by {mover}")
    worth = None if measuring is None else worth_measuring(release, tables, decision, measuring)
    if options.measure_out is not None:
        write_answer_sheet(options.measure_out, tables, worth or [])
    _write(options.out, release, decision, worth)


def _backlog(text: str) -> dict[str, float]:
    """cluster → seconds of `a=600,b=30`."""
    found: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, seconds = map(str.strip, part.rpartition("="))
        if name in found:
            raise SettingsError(f"--backlog: '{name}' is named twice")
        try:
            found[name] = float(seconds)
        except ValueError:
            name = ""
        if not name:
            raise SettingsError(f"--backlog: expected CLUSTER=SECONDS, got '{part}'")
    return found


def _measuring(options: argparse.Namespace) -> Measuring | None:
    """What is asked of measurements; None where nothing is."""
    from mfcp.release.measurements import Measuring

    if options.measure is None and options.measure_worth is None:
        if options.measure_out is not None:
            raise SettingsError("--measure-out: nothing is to be measured; add --measure K or --measure-worth W")
        return None
    if options.measure_out is not None and options.measure_out.suffix != ".csv":
        raise SettingsError(f"--measure-out {options.measure_out}: expected a name that ends in .csv")
    return Measuring(
        most=options.measure,
        worth=options.measure_worth or 0.0,
        start_s=options.measure_start,
        steps=options.measure_steps,
    )


def _write(out: Path | None, release: Release, decision: Decision, worth: list[WorthMeasuring] | None) -> None:
    from mfcp.files import write_json

    rows = _rows(release, decision)
    content = decision.summary() | {"tasks": rows}
    if worth is not None:
        content["measure"] = [vars(each) for each in worth]
    if out is None and not sys.stdout.isatty():
        print(json.dumps(content))
        return
    if out is not None and out.suffix == ".csv":
        import pandas as pd

        from mfcp.data.log.formats import write_sheet

        origin = {
            "release": decision.version,
            "log": content["log"]["name"],
            "last_run": content["log"]["last_run"],
            "emulated": content["emulated"],
            "not_measured": "; ".join(content["not_measured"]),
        }
        write_sheet(pd.DataFrame([row | origin for row in rows]), out, float_format="%.6g")
    elif out is not None:
        write_json(out, content)
    for line in _told(content, decision, out):
        print(line)


def _told(content: dict[str, Any], decision: Decision, out: Path | None) -> list[str]:
    """The answer for a person: what it rests on, a line a task, and the plan as a whole."""
    log, rows = content["log"], content["tasks"]
    lines = ["EMULATED LOG: its runs never took place."] if content["emulated"] else []
    dates = f", {log['first_run']} to {log['last_run']}" if log["last_run"] else ""
    lines.append(f"release {decision.version} of {log['name'] or 'a log'}{dates}, {log['tasks']} tasks")
    task, cluster = _widths(rows[:_SHOWN])
    head = f"{'seconds [95 % interval]':<28}  success  runs there"
    lines.append(f"{padded('task', task)}  {padded('cluster', cluster)}  {head}")
    for row in rows[:_SHOWN]:
        seconds = f"{row['seconds']:.4g} [{row['seconds_low']:.4g}, {row['seconds_high']:.4g}]"
        success = "unknown" if row["reliability"] is None else f"{row['reliability']:.3f}"
        lines.append(
            f"{padded(row['task_id'], task)}  {padded(row['cluster_id'], cluster)}  {seconds:<28}  {success:<7}  "
            f"{row['runs']}"
        )
    if len(rows) > _SHOWN:
        lines.append(f"and {len(rows) - _SHOWN} more tasks")
    share = "reliability unknown"
    if decision.mean_reliability is not None:
        share = f"reliability {decision.mean_reliability:.4f} (gamma {decision.gamma:.4f})"
    lines += [f"not measured: {text}" for text in content["not_measured"]]
    lines += _measurements(content.get("measure"))
    if decision.backlog:
        lines.append(
            "busy before: " + ", ".join(f"{name} {seconds:.6g} s" for name, seconds in decision.backlog.items())
        )
    word = "task" if len(rows) == 1 else "tasks"
    lines.append(
        f"{len(rows)} {word} on {len(set(decision.cluster_id))} of {len(decision.clusters)} clusters by "
        f"'{decision.rule}': {_STATUS.get(decision.status, decision.status)}, makespan {decision.makespan:.6g} s"
    )
    where = f" → {out}" if out is not None else ""
    lines.append(f"  (bound {decision.lower_bound:.6g} s, gap {decision.gap:.2%}), {share}{where}")
    return lines


def _widths(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Of the columns task and cluster."""
    return column_width((row["task_id"] for row in rows), 4), column_width((row["cluster_id"] for row in rows), 7)


def _measurements(worth: list[dict[str, Any]] | None) -> list[str]:
    """The measurements that are worth making, for a person."""
    if worth is None:
        return []
    if not worth:
        return ["no measurement would save more than it costs"]
    task, cluster = _widths(worth)
    head = "measure before deciding, in this order (then --observed):"
    rows = [("task", "cluster", "saves", "takes")]
    rows += [(row["task_id"], row["cluster_id"], f"{row['saves_s']:.3g} s", f"{row['takes_s']:.3g} s") for row in worth]
    return [
        head,
        *(f"{padded(name, task)}  {padded(where, cluster)}  {saves:<8}  {takes}" for name, where, saves, takes in rows),
    ]


def _rows(release: Release, decision: Decision) -> list[dict[str, Any]]:
    chosen = decision.chosen()
    why = [""] * len(decision.task_id)
    if len(why) <= _EXPLAINED:
        why = [_reason(explanation) for explanation in _explanations(release, decision, None)]
    counts = decision.data.get("runs_per_cluster", {})
    if decision.believed.evidence is not None:
        why = [_with_movers(text, movers) for text, movers in zip(why, decision.movers(), strict=True)]
    return [
        {"task_id": task, "cluster_id": cluster}
        | {name: _number(chosen[name][j]) for name in _COLUMNS}
        | {"runs": counts.get(cluster), "why": why[j]}
        for j, (task, cluster) in enumerate(zip(decision.task_id, decision.cluster_id, strict=True))
    ]


def _with_movers(text: str, movers: tuple[Mover, ...]) -> str:
    if not movers:
        return text
    moved = "; ".join(map(str, movers))
    return f"{text}; time moved by {moved}" if text else f"time moved by {moved}"


def _number(value: float) -> float | None:
    """As JSON has it; None where nothing is known."""
    return None if value != value else float(value)


def _explanations(release: Release, decision: Decision, tasks: list[str] | None) -> list[Explanation]:
    from mfcp.platform.deciding.explaining import explain

    return explain(
        decision.belief,
        decision.assignment,
        task_id=decision.task_id,
        cluster_id=decision.clusters,
        price=decision.price,
        tasks=tasks,
    )


def _reason(explanation: Explanation) -> str:
    """What the next best cluster would cost."""
    others = [o for o in explanation.options if not o.chosen and o.allowed and o.online]  # in order of that cost
    if not others:
        return "no other cluster can take it"
    text = f"next best {others[0].cluster_id}: makespan {others[0].makespan_change:+.4g} s"
    change = others[0].reliability_change
    return text if change is None else f"{text}, reliability {change:+.4f}"
