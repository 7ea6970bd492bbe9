"""`mfcp solve`: the best plan for given times and reliabilities, read from files."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.commands.reading import add_option, load_members
from mfcp.errors import InfeasibleError, SettingsError

if TYPE_CHECKING:
    from mfcp.matching.problem import MatchingProblem, Solution


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    solve = commands.add_parser(
        "solve",
        help="match given times and reliabilities",
        description="Match N tasks to M clusters. A FILE is .npy or CSV without header: a matrix or a line of numbers.",
    )
    solve.add_argument("--times", type=Path, required=True, metavar="FILE", help="M × N seconds")
    solve.add_argument("--reliability", type=Path, required=True, metavar="FILE", help="M × N probabilities of success")
    solve.add_argument("--gamma", type=float, required=True, metavar="G", help="least mean reliability of the N tasks")
    solve.add_argument(
        "--engine",
        metavar="NAME",
        default="auto",
        help="auto (by size), search, milp, enumerate, exact, dual, admm, pop, greedy",
    )
    solve.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="seconds (60)")
    solve.add_argument("--allowed", type=Path, metavar="FILE", help="M × N, 0 where a task may not run, else 1")
    solve.add_argument("--backlog", type=Path, metavar="FILE", help="M seconds until each cluster is free")
    solve.add_argument("--deadline", type=Path, metavar="FILE", help="N seconds by which a task is done, inf for none")
    solve.add_argument("--max-tasks", metavar="K", help="tasks of a cluster at most: a number, or a FILE of M")
    solve.add_argument(
        "--capacity",
        action="append",
        default=[],
        metavar="NAME=USE:LIMIT",
        help="a resource: what each task uses (FILE, N or M × N) and what each cluster has (FILE of M, or a number)",
    )
    solve.add_argument("--zeta", type=Path, metavar="FILE", help="N + 1 or M × (N + 1): factor of n tasks side by side")
    solve.add_argument("--cost", type=Path, metavar="FILE", help="M × N money")
    solve.add_argument(
        "--weights", metavar="a=1,…", help="objective: makespan, total_time, cost; 0 if left out (makespan=1)"
    )
    solve.add_argument(
        "--scheduler", metavar="URL", help="of a Dask cluster that computes prices (tcp://HOST:8786); engine dual"
    )
    solve.add_argument("--out", type=Path, metavar="FILE", help="JSON file (default: JSON on standard output)")
    add_option(solve)
    solve.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the problem, match it, and write or print the plan as JSON."""
    from mfcp.commands.matrix_files import read_problem
    from mfcp.files import output_file, write_json
    from mfcp.matching.infeasible import explain_infeasible, require_feasible
    from mfcp.matching.planning import solve

    if not options.time_limit > 0:
        raise SettingsError(f"--time-limit: expected seconds above 0, got {options.time_limit}")
    load_members(options)
    engine: str | Mapping[str, str] = options.engine
    if options.scheduler:
        if engine not in ("auto", "dual"):
            raise SettingsError(f"--scheduler: expected engine 'dual', got '{engine}'")
        engine = {"kind": "dual", "scheduler": options.scheduler}
    problem = read_problem(options)
    if options.out:
        output_file(options.out)
    require_feasible(problem)
    with _without_solver_output():
        solution = solve(problem, engine, time_limit=options.time_limit)
        if solution.status == "infeasible":
            raise InfeasibleError(explain_infeasible(problem).message)
    if solution.status == "failed":
        raise SettingsError(
            f"engine '{solution.engine}' found no plan in {solution.seconds:.1f} s, nor a proof that there is none; "
            "raise --time-limit or choose another --engine"
        )
    result = _result(problem, solution)
    if not options.out:
        print(json.dumps(result))
        return
    write_json(options.out, result)
    bound, gap = (f"{result[key]:.6g}" if result[key] is not None else "none" for key in ("lower_bound", "gap"))
    print(
        f"{options.out}: {result['status']}, objective {result['objective']:.6g} (bound {bound}, gap {gap}), "
        f"makespan {result['makespan']:.6g} s, reliability {result['reliability']:.4f} (gamma {result['gamma']:g}), "
        f"engine {result['engine']}, {result['seconds']:.2f} s"
    )


def _result(problem: MatchingProblem, solution: Solution) -> dict[str, Any]:
    """What `mfcp solve` tells of one round; None where there is no bound."""
    from math import isfinite

    from mfcp.matching.problem import busy, reliability

    bound, gap = float(solution.lower_bound), float(solution.gap)
    return {
        "assignment": solution.assignment.tolist(),
        "objective": float(solution.objective),
        "makespan": float(solution.makespan),
        "lower_bound": bound if isfinite(bound) else None,
        "gap": gap if isfinite(gap) else None,
        "reliability": float(reliability(solution.assignment, problem.A)),
        "gamma": float(problem.gamma),
        "busy": busy(solution.assignment, problem.T, problem.zeta).tolist(),
        "status": str(solution.status),
        "engine": solution.engine,
        "seconds": solution.seconds,
    }


@contextmanager
def _without_solver_output() -> Iterator[None]:
    """Nothing on the process's standard output: HiGHS leaves notes there, where a script expects JSON alone."""
    import ctypes

    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C has buffered goes nowhere, too
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
