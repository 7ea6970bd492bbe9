"""Small rounds with everything that a platform adds, and what a plan does on them, told in plain Python."""

import itertools

import numpy as np
from hypothesis import strategies as st

from mfcp.errors import InfeasibleError
from mfcp.matching.problem import Capacity, MatchingProblem, Objective


@st.composite
def platforms(draw, most_clusters=3, most_tasks=5, parallel=True):
    """Keyword arguments of a problem that mixes masks, backlog, capacities, deadlines, objectives, zeta and gamma."""
    M, N = draw(st.integers(1, most_clusters)), draw(st.integers(1, most_tasks))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    unit = draw(st.sampled_from([1e-4, 1.0, 3600.0]))
    T = unit * rng.lognormal(0, draw(st.sampled_from([0.0, 0.5, 2.0])), (M, N))
    if draw(st.booleans()):  # ties and round numbers, on which tolerances show
        T = unit * rng.integers(1, 4, (M, N))
    A = rng.integers(5, 11, (M, N)) / 10 if draw(st.booleans()) else rng.uniform(0.5, 1.0, (M, N))
    allowed = rng.random((M, N)) < draw(st.sampled_from([0.7, 1.0]))
    allowed[rng.integers(M)] = True
    given = {"T": T, "A": A, "gamma": draw(st.sampled_from([0.0, 0.7, 0.8, 0.9])), "allowed": allowed}
    if draw(st.booleans()):
        given["backlog"] = unit * rng.integers(0, 3, M) * rng.uniform(0.5, 1.5)
    if draw(st.booleans()):
        most = rng.integers(0, N + 1, M) if draw(st.booleans()) else np.full(M, max(1, (N + M) // M))
        given["capacities"] = [Capacity("tasks", 1, most)]
        if draw(st.booleans()):
            memory = rng.uniform(0, 1, N)
            limit = np.where(rng.random(M) < 0.3, np.inf, rng.uniform(0.2, 1.0, M) * memory.sum())
            given["capacities"].append(Capacity("memory", memory, limit))
    if draw(st.booleans()):
        due = unit * rng.uniform(1.0, 3.0 * N, N)
        given["deadline"] = np.where(rng.random(N) < 0.4, np.inf, due)
    if draw(st.booleans()):
        given["cost"] = rng.integers(0, 5, (M, N)) * rng.uniform(0.5, 1.0)
        given["objective"] = Objective(*draw(st.sampled_from([(1, 0.5, 0), (1, 0, unit), (0, 1, 0), (0, 0, 1)])))
    if parallel and draw(st.booleans()):
        given["zeta"] = np.concatenate([[1.0], rng.uniform(0.4, 1.2, N)])
    return given


def built(given):
    """The problem, or None where a deadline leaves a task no cluster."""
    try:
        return MatchingProblem(**given)
    except InfeasibleError:
        return None


def told(given, plan):
    """Objective and excess of every constraint under a plan: each cluster runs its tasks one by one, or all at once."""
    T, A = given["T"], given["A"]
    M, N = T.shape
    due = given.get("deadline", np.full(N, np.inf))
    weights = given.get("objective", Objective())
    makespan = total = late = 0.0
    for i in range(M):
        mine = sorted((j for j in range(N) if plan[j] == i), key=lambda j: due[j])
        clock = begin = given["backlog"][i] if "backlog" in given else 0.0
        for j in mine:
            clock += T[i, j]
            if "zeta" not in given:
                late = max(late, clock - due[j])
        if "zeta" in given:
            clock = begin + (clock - begin) * given["zeta"][len(mine)]
            late = max([late, *(clock - due[j] for j in mine)])
        if mine:
            makespan = max(makespan, clock)
            total += clock - begin
    cost = sum(given["cost"][plan[j], j] for j in range(N)) if "cost" in given else 0.0
    excess = {
        "allowed": sum(not given["allowed"][plan[j], j] for j in range(N)),
        "reliability": max(0.0, given["gamma"] - sum(A[plan[j], j] for j in range(N)) / N),
    }
    for capacity in given.get("capacities", ()):
        use, limit = np.broadcast_to(capacity.use, (M, N)), np.broadcast_to(capacity.limit, M)
        used = [sum(use[i, j] for j in range(N) if plan[j] == i) for i in range(M)]
        excess[capacity.name] = max(0.0, *(used[i] - limit[i] for i in range(M)))
    if "deadline" in given:
        excess["deadline"] = late
    return weights.makespan * makespan + weights.total_time * total + weights.cost * cost, excess


def every_plan(given):
    """(plan, objective, excess) of every plan that breaks no mask."""
    M, N = given["T"].shape
    for plan in itertools.product(range(M), repeat=N):
        value, excess = told(given, plan)
        if not excess.pop("allowed"):
            yield np.array(plan), value, excess


def holds(excess, given, *, but=()):
    """Whether nothing is exceeded by more than rounding."""
    size = {"allowed": 1.0, "reliability": 1.0, "deadline": np.max(given["T"]), "tasks": 1.0, "memory": 1.0}
    return all(over <= 1e-9 * size[name] for name, over in excess.items() if name not in but)


def best_by_hand(given, price=None):
    """The least objective, plus price · shortfall if there is a price; inf where no plan holds."""
    but = () if price is None else ("reliability",)
    found = [
        value + (price or 0.0) * excess["reliability"]
        for _, value, excess in every_plan(given)
        if holds(excess, given, but=but)
    ]
    return min(found, default=np.inf)
