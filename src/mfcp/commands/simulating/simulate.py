"""`mfcp simulate`: a trace of jobs on a cluster, under one policy or several."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.commands.json_output import add_json, aside, print_json
from mfcp.commands.reading import add_option, load_members, whole_number
from mfcp.commands.simulating.case import Case, spec_of
from mfcp.commands.simulating.sweep import sweep
from mfcp.commands.simulating.tables import print_table, text_of
from mfcp.errors import DataError, SettingsError

if TYPE_CHECKING:
    from mfcp.simulator.cluster import Cluster
    from mfcp.simulator.explaining import JobReport
    from mfcp.simulator.outcome import Outcome
    from mfcp.simulator.policies.base import Policy
    from mfcp.simulator.traces.measured_ways import MeasuredWays
    from mfcp.simulator.traces.reading import Trace

SHOWN = {
    "mean_jct_s": "mean JCT [s]", "p95_jct_s": "p95 JCT [s]", "mean_wait_s": "to start [s]",
    "makespan_s": "makespan [s]", "utilization": "used", "deadlines_met": "met", "preemptions": "stops",
}  # fmt: skip
UNFINISHED = {"declined": "declined", "given_up": "given up", "never_ends": "never end"}


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    simulate = commands.add_parser(
        "simulate",
        help="what happens inside a cluster: a trace of jobs under scheduling policies",
        description="Simulates a trace: any table with submission, duration and accelerators, public traces as they "
        "are published. Policies are by name, with settings as `las:limits=[600,3600]`. Writes metrics, a table of "
        "jobs and the log of every policy, and a figure, to OUT.",
    )
    simulate.add_argument(
        "--trace", type=Path, required=True, metavar="FILE", help="a row per job: .parquet, .csv, .jsonl, .json, .psv"
    )
    simulate.add_argument(
        "--cluster", required=True, metavar="C", help="64, 8x8 or v100:9x4,k80:36, or a table of nodes"
    )
    simulate.add_argument(
        "--policy", action="append", metavar="P,Q,…", help="see docs/simulator.md; not needed with --check"
    )
    simulate.add_argument("--columns", metavar="ROLE=NAME,…", help="columns of the trace, as submit=when,gpus=n")
    simulate.add_argument(
        "--belief", default="oracle", metavar="B",
        help="of durations: oracle, error:mre=0.25, history, losses, or what a release predicts: "
        "release:path=DIR;cluster=ID",
    )  # fmt: skip
    _add_measured(simulate)
    simulate.add_argument(
        "--semantics", metavar="NAME", help="a preset: plain, muri, gavel, shockwave, slots, elasticflow"
    )
    simulate.add_argument(
        "--placement", default="first", metavar="NAME",
        help="which node a job takes: first, best, fastest; or fgd, best_fit, dot_product, gpu_packing, "
        "gpu_clustering, random, which know parts of accelerators, cores and memory (first)",
    )  # fmt: skip
    simulate.add_argument("--seed", type=whole_number(0), default=0, metavar="S", help="of beliefs and failures (0)")
    simulate.add_argument("--leave-out", action="store_true", help="leave bad rows out, instead of an error")
    simulate.add_argument("--check", action="store_true", help="only describe the trace: load, shape, contradictions")
    simulate.add_argument("--loads", metavar="L,L,…", help="a sweep: the trace at these loads, and --seeds of each")
    simulate.add_argument(
        "--seeds", type=whole_number(1), metavar="K", help="a sweep: of all that is drawn, S to S + K - 1"
    )
    simulate.add_argument("--workers", type=whole_number(1), metavar="W", help="of a sweep: processes (one a core)")
    simulate.add_argument("--scheduler", metavar="URL", help="of a sweep: a Dask cluster (tcp://HOST:8786)")
    simulate.add_argument("--compare", action="store_true", help="the others with the first, job by job")
    simulate.add_argument("--explain", metavar="JOB", help="why this job waits, and when it is to be expected")
    simulate.add_argument("--out", type=Path, metavar="DIR", help="results (default: only the table)")
    add_json(simulate)
    add_option(simulate)
    simulate.set_defaults(run=run)


def _add_measured(simulate: argparse.ArgumentParser) -> None:
    """Tables of what was measured of the jobs."""
    simulate.add_argument("--speeds", type=Path, metavar="FILE", help="table of job or model, type and speed")
    simulate.add_argument(
        "--configurations", type=Path, metavar="FILE",
        help="for policies that choose sizes: table of job or model, gpus, and speed or iterations_per_s",
    )  # fmt: skip
    simulate.add_argument(
        "--sizes", metavar="G,G,…",
        help="numbers of accelerators that --configurations lacks, at a speed that is predicted from those it has",
    )  # fmt: skip
    simulate.add_argument(
        "--batches", type=Path, metavar="FILE",
        help="in rounds, batch sizes that jobs take while they train: table of job or model, first_epoch, batch_size, "
        "samples_per_epoch and steps_per_s",
    )  # fmt: skip
    simulate.add_argument(
        "--losses", type=Path, metavar="FILE",
        help="jobs end when their losses have converged: table of job or model, epoch and loss, for all epochs of the "
        "trace's durations",
    )  # fmt: skip
    simulate.add_argument(
        "--pairs", type=Path, metavar="FILE",
        help="for policies that pack, speeds of jobs that share: table of model_a, model_b, type, speed_a and speed_b",
    )  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Read, check, simulate, tell."""
    from mfcp.files import output_folder
    from mfcp.progress import progress

    if not options.policy and not options.check:
        raise SettingsError("--policy: name at least one, as fifo or srsf,las; or describe the trace with --check")
    if options.json and (options.explain or options.loads or options.seeds):
        raise SettingsError("--json: tells metrics, --compare and --check; of a sweep, --out has a table, sweep.csv")
    load_members(options)
    policies = dict(_policies(",".join(options.policy or [])))
    if options.out:
        output_folder(options.out)
    with aside(options):
        with progress("predict sizes") if options.sizes else nullcontext():
            case = Case.of(options)
        for note in case.trace.notes:
            print(note)
        if case.ways and case.ways.predicted.any():
            print(_what_is_predicted(case.ways))
    if options.check and options.json:
        print_json(_description(case.trace, case.cluster))
        return
    if options.check:
        _print_description(case.trace, case.cluster)
        return
    if options.loads is not None or options.seeds is not None:
        sweep(options, case, policies)
        return
    outcomes = {}
    with aside(options), progress("simulate", len(policies)) as advance:
        for name, policy in policies.items():
            outcomes[name] = case.run(policy, options.seed)
            advance()
    if options.json:
        print_json({"policies": _metrics(outcomes)} | _compared(options, outcomes))
        with aside(options):
            if options.out:
                _write(case, outcomes, options.out)
        return
    _print_metrics(outcomes)
    _print_elastic(policies, case.configurations is not None)
    packs = [name for name, policy in policies.items() if getattr(policy, "packs", False)]
    if packs and case.pairs is None:
        verb = "lets" if len(packs) == 1 else "let"
        print(f"{', '.join(packs)} {verb} jobs share accelerators, and here none does: how fast they are together is "
              "not told (--pairs).")  # fmt: skip
    if case.pairs is not None and (others := [name for name in policies if name not in packs]):
        print(f"{', '.join(others)}: no jobs share accelerators, so --pairs changes nothing.")
    if options.compare:
        _print_comparison(outcomes)
    if options.explain is not None:
        _print_explanation(case.trace, outcomes, policies, case.run, options.explain)
    if options.out:
        _write(case, outcomes, options.out)


def _policies(text: str) -> Iterator[tuple[str, Policy]]:
    """Names as given, and policies; commas part them, but not within brackets or braces."""
    from mfcp.simulator.policies.base import Policy
    from mfcp.simulator.simulation import import_policies

    import_policies()
    depth, part, parts = 0, "", []
    for letter in text + ",":
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    if part:
        raise SettingsError(f"--policy {text}: a bracket is not closed; expected as las:limits=[600,3600]")
    named = list(filter(None, parts))
    for each in named:
        if named.count(each) > 1:
            raise SettingsError(f"--policy {text}: '{each}' is there twice; keep one, or give it another setting")
        yield each, Policy.parse(spec_of(each))


def _print_metrics(outcomes: dict[str, Outcome]) -> None:
    rows = {name: outcome.metrics() for name, outcome in outcomes.items()}
    shown = [key for key in SHOWN if any(row[key] == row[key] for row in rows.values())]
    cells = [[name, *(text_of(row[key]) for key in shown)] for name, row in rows.items()]
    print_table(["policy", *(SHOWN[key] for key in shown)], cells)
    if any(row[key] for row in rows.values() for key in UNFINISHED):
        counts = [[name, *(f"{row[key]:,.0f}" for key in UNFINISHED)] for name, row in rows.items()]
        print_table(["jobs in no completion time", *UNFINISHED.values()], counts)


def _print_elastic(policies: dict[str, Policy], measured: bool) -> None:
    """Say so where jobs that change their size stand beside jobs that do not."""
    elastic = [name for name, policy in policies.items() if getattr(policy, "elastic", False)]
    if not elastic:
        return
    if len(elastic) < len(policies):
        verb = "chooses" if len(elastic) == 1 else "choose"
        print(f"{', '.join(elastic)} {verb} how many accelerators a job has; the others run it on what it asks for. "
              "The difference is not of the order of jobs alone.")  # fmt: skip
    if not measured and any(getattr(policies[name], "scales", False) for name in elastic):
        print("How fast jobs are on other numbers of accelerators was not measured: the number to the power 0.9 "
              "stands in (--configurations).")  # fmt: skip


def _metrics(outcomes: dict[str, Outcome]) -> dict[str, dict[str, Any]]:
    """Policy → its metrics, and how much work the clock had."""
    return {name: outcome.metrics() | {"work": outcome.work} for name, outcome in outcomes.items()}


def _compared(options: argparse.Namespace, outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """What `--compare` adds to the JSON: policy → completion times minus those of the first."""
    from mfcp.simulator.comparing import paired_difference

    if not options.compare:
        return {}
    (first, base), *others = outcomes.items()
    return {"minus": {"policy": first, **{name: paired_difference(base, outcome) for name, outcome in others}}}


def _description(trace: Trace, cluster: Cluster) -> dict[str, Any]:
    from mfcp.simulator.traces.description import describe_trace

    return describe_trace(trace.jobs, cluster)


def _print_description(trace: Trace, cluster: Cluster) -> None:
    about = _description(trace, cluster)
    plain = [[key, text_of(about[key]) if isinstance(about[key], float) else str(about[key])] for key in about
             if isinstance(about[key], (str, int, float))]  # fmt: skip
    sizes = [[f"load of jobs with {size}", text_of(load)] for size, load in about["load_by_size"].items()]
    peak = max(about["load_by_hour"])
    print_table(["trace", "value"], [*plain, *sizes, ["load of the busiest hour of the day", text_of(peak)]])
    for finding in about["findings"] or ["no contradictions found"]:
        print(finding)


def _print_comparison(outcomes: dict[str, Outcome]) -> None:
    from mfcp.simulator.comparing import paired_difference, who_waits

    (first, base), *others = outcomes.items()
    if not others:
        raise SettingsError("--compare: needs at least two policies")
    rows, left_out = [], []
    for name, outcome in others:
        found = paired_difference(base, outcome)
        if found["left_out"]:
            left_out.append(f"{name} - {first}: {found['left_out']:,.0f} jobs that do not finish in both are left out.")
        interval = f"[{found['ci_low_s']:+,.0f}, {found['ci_high_s']:+,.0f}]"
        rows.append([f"{name} - {first}", f"{found['mean_s']:+,.0f}", interval, f"{found['ratio']:.3f}"])
    print_table(["mean JCT", "seconds", "95 % interval", "ratio"], rows)
    for line in left_out:
        print(line)
    for name, outcome in others:
        waits = who_waits(base, outcome)
        titles = ["who", "", "jobs", f"not running under {first} [s]", f"under {name} [s]", "change [s]"]
        cells = [
            [str(by), str(group), str(jobs), text_of(before), text_of(after), f"{change:+,.0f}"]
            for by, group, jobs, before, after, change in waits.itertuples(index=False, name=None)
        ]
        print_table(titles, cells)


def _print_explanation(
    trace: Trace, outcomes: dict[str, Outcome], policies: dict[str, Policy], run_one: Any, job: str
) -> None:
    import numpy as np

    from mfcp.simulator.explaining import explain_job

    found = np.flatnonzero(trace.jobs.id == job)
    if len(found) == 0:
        raise DataError(f"--explain: no job '{job}' in the trace; the first is '{trace.jobs.id[0]}'")
    for name, outcome in outcomes.items():
        told = explain_job(outcome, int(found[0]), partial(run_one, policies[name]))
        _print_fate(name, job, told)
        for blocker, gpus, seconds in told.first:
            print(f"  Of {told.roomy_s:,.0f} s with room for it, job {blocker}, which asks for {gpus}, was first in "
                  f"line for {seconds:,.0f} s.")  # fmt: skip
        if told.instead:
            ran = ", ".join(f"{who} ({seconds:,.0f})" for who, seconds in told.instead)
            print(f"  Before its start, most accelerator-seconds went to {ran}.")
        for when, who in told.taken_off[:5]:
            print(f"  It was taken off at {when:,.0f} s for {', '.join(who) or 'no job that started then'}.")


def _print_fate(name: str, job: str, told: JobReport) -> None:
    never = {"declined": "is declined", "given_up": "is given up after its last failure", "never_ends": "never ends"}
    starts = "never starts" if told.started != told.started else f"starts at {told.started:,.0f} s"
    ends = never.get(told.fate, f"ends at {told.finished:,.0f} s")
    print(f"{name}: job {job} is submitted at {told.submit:,.0f} s, {starts}, {ends}, and is taken off "
          f"{len(told.taken_off)} times.")  # fmt: skip
    median, low, high = told.interval()
    if median == median:
        print(f"  Start under other draws of what is believed: {median:,.0f} s [{low:,.0f}, {high:,.0f}].")


def _what_is_predicted(ways: MeasuredWays) -> str:
    predicted = int(ways.predicted.sum())
    beyond = f"; {ways.beyond} of them have more accelerators than any that was, where errors are larger"
    return (f"{predicted} ways to run are predicted from the {len(ways.predicted) - predicted} that were measured"
            f"{beyond * (ways.beyond > 0)}.")  # fmt: skip


def _write(case: Case, outcomes: dict[str, Outcome], out: Path) -> None:
    """Everything to files: what was there stays until all of it is written."""
    import pandas as pd

    from mfcp.data.log.formats import write_sheet
    from mfcp.files import replacing_files, write_json
    from mfcp.simulator.timeline import draw_timeline, write_chrome_trace

    metrics = _metrics(outcomes)
    finite = {
        name: {key: None if value != value else value for key, value in own.items()} for name, own in metrics.items()
    }
    with replacing_files(out, "left_out.csv", "configurations.csv") as new:
        write_json(new / "metrics.json", finite)
        if len(case.trace.left_out):
            write_sheet(case.trace.left_out, new / "left_out.csv")
        if case.ways:
            write_sheet(case.ways.frame(case.cluster), new / "configurations.csv")
        for name, outcome in outcomes.items():
            safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
            columns = {"job": outcome.jobs.id, "submit_s": outcome.jobs.submit, "start_s": outcome.started,
                       "end_s": outcome.finished, "jct_s": outcome.jct, "preemptions": outcome.stops}  # fmt: skip
            pd.DataFrame(columns).to_parquet(new / f"jobs-{safe}.parquet", index=False)
            outcome.log.to_parquet(new / f"log-{safe}.parquet", index=False)
            write_chrome_trace(outcome, new / f"trace-{safe}.json")
        draw_timeline(outcomes, new / "timeline.png")
    print(f"wrote {out}")
