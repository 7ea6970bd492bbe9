"""`mfcp match`: a round of new tasks, predicted and matched with a release; imports nothing heavy until it runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.commands.solve import ENGINES
from mfcp.errors import SettingsError

if TYPE_CHECKING:
    from mfcp.platform.deciding.explaining import Explanation
    from mfcp.release.decision import Decision
    from mfcp.release.model import Release

_COLUMNS = ("seconds", "seconds_low", "seconds_high", "reliability", "reliability_low", "reliability_high")
_EXPLAINED = 500  # tasks up to which every choice is explained without being asked


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "match",
        help="predict and match a round of new tasks with a release",
        description="Names one cluster for every task of a table, with predicted times and reliabilities, how far the "
        "plan can be from the best one, and why. The release is what `dvc repro release` wrote, data/release.",
    )
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a release, for instance data/release")
    parser.add_argument(
        "--tasks", type=Path, required=True, metavar="FILE",
        help="table tasks (.csv, .jsonl, .parquet), or a folder with it and the graphs: nodes, edges",
    )  # fmt: skip
    parser.add_argument("--engine", choices=ENGINES, default="auto", help="default: auto, the release's own rule")
    parser.add_argument("--gamma", type=float, metavar="G", help="least mean reliability (default: the release's)")
    parser.add_argument("--clusters", metavar="a,b,…", help="clusters at hand (default: all that the release knows)")
    parser.add_argument("--time-limit", type=float, default=10.0, metavar="S", help="seconds for engine and bound (10)")
    parser.add_argument("--explain", metavar="TASK", help="also print every cluster's case for this task")
    parser.add_argument("--out", type=Path, metavar="FILE", help=".json or .csv (default: JSON on standard output)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read, decide, write."""
    from mfcp.data.log.tables import read_new_tasks
    from mfcp.release.decision import decide
    from mfcp.release.model import Release

    if not options.time_limit > 0:
        raise SettingsError(f"--time-limit: expected seconds above 0, got {options.time_limit}")
    if options.out is not None and options.out.suffix not in (".json", ".csv"):
        raise SettingsError(f"--out {options.out}: expected a name that ends in .json or .csv")
    clusters = None if options.clusters is None else {name.strip() for name in options.clusters.split(",")}
    release, tables = Release.load(options.model), read_new_tasks(options.tasks)
    if clusters is not None and (unknown := sorted(clusters - set(release.cluster_id))):
        raise SettingsError(f"--clusters: unknown '{unknown[0]}'; the release knows {', '.join(release.cluster_id)}")
    decision = decide(
        release, tables, gamma=options.gamma, clusters=clusters, engine=options.engine, time_limit=options.time_limit
    )
    if options.explain is not None:
        print(_explanations(release, decision, [options.explain])[0].text)
    _write(options.out, release, decision)


def _write(out: Path | None, release: Release, decision: Decision) -> None:
    from mfcp.files import replacing, write_json

    rows = _rows(release, decision)
    if out is not None and out.suffix == ".csv":
        import pandas as pd

        with replacing(out) as temporary:
            pd.DataFrame(rows).to_csv(temporary, index=False)
    else:
        content = decision.summary() | {"tasks": rows}
        if out is None:
            print(json.dumps(content))
            return
        write_json(out, content)
    print(
        f"{len(rows)} tasks on {len(set(decision.cluster_id))} of {len(decision.clusters)} clusters by "
        f"'{decision.rule}' of release {decision.version}: {decision.status}, makespan {decision.makespan:.6g} s "
        f"(bound {decision.lower_bound:.6g} s, gap {decision.gap:.2%}), reliability {decision.mean_reliability:.4f} "
        f"(gamma {decision.gamma:.4f}) → {out}"
    )


def _rows(release: Release, decision: Decision) -> list[dict[str, Any]]:
    chosen = decision.chosen()
    why = [""] * len(decision.task_id)
    if len(why) <= _EXPLAINED:
        why = [_reason(explanation) for explanation in _explanations(release, decision, None)]
    return [
        {"task_id": task, "cluster_id": cluster} | {name: float(chosen[name][j]) for name in _COLUMNS} | {"why": why[j]}
        for j, (task, cluster) in enumerate(zip(decision.task_id, decision.cluster_id, strict=True))
    ]


def _explanations(release: Release, decision: Decision, tasks: list[str] | None) -> list[Explanation]:
    from mfcp.platform.deciding.explaining import explain

    return explain(
        decision.belief,
        decision.assignment,
        task_id=decision.task_id,
        cluster_id=decision.clusters,
        price=release.price,
        tasks=tasks,
    )


def _reason(explanation: Explanation) -> str:
    """What the next best cluster would cost."""
    others = [o for o in explanation.options if not o.chosen and o.allowed and o.online]  # in order of that cost
    if not others:
        return "no other cluster can take it"
    return (
        f"next best {others[0].cluster_id}: makespan {others[0].makespan_change:+.4g} s, "
        f"reliability {others[0].reliability_change:+.4f}"
    )
