"""CP-SAT or PDLP on one matching round, in a process of its own (OR-Tools and HiGHS do not share one).

python benchmarks/ortools_peer.py cpsat|pdlp ROUND.npz SECONDS     prints one JSON line
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from scipy import sparse

UNITS = 100_000  # integer time units per unit of the round's balanced makespan, and per unit of reliability


def cpsat(T: np.ndarray, A: np.ndarray, allowed: np.ndarray, gamma: float, limit: float) -> dict[str, object]:
    from ortools.sat.python import cp_model

    M, N = T.shape
    unit = np.where(allowed, T, np.inf).min(axis=0).sum() / M / UNITS
    times = np.ceil(np.where(allowed, T, 0) / unit).astype(np.int64)
    chances = np.floor(A * UNITS).astype(np.int64)
    model = cp_model.CpModel()
    x = [[model.new_bool_var("") if allowed[i, j] else 0 for j in range(N)] for i in range(M)]
    span = model.new_int_var(0, int(times.sum()), "")
    for j in range(N):
        model.add_exactly_one(x[i][j] for i in range(M) if allowed[i, j])
    for i in range(M):
        model.add(sum(int(times[i, j]) * x[i][j] for j in range(N)) <= span)
    model.add(sum(int(chances[i, j]) * x[i][j] for i in range(M) for j in range(N)) >= int(np.ceil(gamma * N * UNITS)))
    model.minimize(span)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {"makespan": None}
    plan = [max(range(M), key=lambda i: solver.boolean_value(x[i][j]) if allowed[i, j] else -1) for j in range(N)]
    loads = np.bincount(plan, T[plan, np.arange(N)], minlength=M)
    return {"makespan": float(loads.max()), "reliability": float(A[plan, np.arange(N)].mean())}


def pdlp(T: np.ndarray, A: np.ndarray, allowed: np.ndarray, gamma: float, limit: float) -> dict[str, object]:
    """The LP relaxation: its value is a bound, not a plan."""
    from ortools.pdlp import solve_log_pb2, solvers_pb2
    from ortools.pdlp.python import pdlp as api

    M, N = T.shape
    unit = np.where(allowed, T, np.inf).min(axis=0).sum() / M
    cluster, task = np.nonzero(allowed)
    columns = np.arange(len(cluster))
    shape = (M, len(cluster))
    load = sparse.csc_matrix((T[cluster, task] / unit, (cluster, columns)), shape)
    once = sparse.csc_matrix((np.ones(len(task)), (task, columns)), (N, len(task)))
    mean = sparse.csc_matrix(A[cluster, task][None] / N)
    program = api.QuadraticProgram()
    rows = sparse.bmat([[load, -np.ones((M, 1))], [once, None], [mean, None]], format="csc")
    program.resize_and_initialize(rows.shape[1], rows.shape[0])
    program.constraint_matrix = rows
    program.objective_vector = np.append(np.zeros(len(task)), 1.0)
    program.variable_lower_bounds = np.zeros(rows.shape[1])
    program.variable_upper_bounds = np.full(rows.shape[1], np.inf)
    program.constraint_lower_bounds = np.concatenate([np.full(M, -np.inf), np.ones(N), [gamma]])
    program.constraint_upper_bounds = np.concatenate([np.zeros(M), np.ones(N), [np.inf]])
    parameters = solvers_pb2.PrimalDualHybridGradientParams()
    parameters.termination_criteria.simple_optimality_criteria.eps_optimal_relative = 1e-4
    parameters.termination_criteria.time_sec_limit = limit
    parameters.num_threads = 2
    result = api.primal_dual_hybrid_gradient(program, parameters)
    done = result.solve_log.termination_reason == solve_log_pb2.TERMINATION_REASON_OPTIMAL
    return {"bound": float(result.primal_solution[-1]) * unit if done else None}


def main() -> None:
    what, path, limit = sys.argv[1:]
    with np.load(path) as stored:
        data = {name: stored[name] for name in ("T", "A", "allowed", "gamma")}
    start = time.perf_counter()
    found = {"cpsat": cpsat, "pdlp": pdlp}[what](
        data["T"].astype(float), data["A"].astype(float), data["allowed"], float(data["gamma"]), float(limit)
    )
    print(json.dumps(found | {"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
