"""X*(T, A): the relaxed plan of every round as a differentiable function, Eq. (10) of [Huo2025]_."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from mfcp.errors import SettingsError
from mfcp.matching.relaxed.argmin import MAX_STEPS, RESTARTS, TOLERANCE, Backend, RelaxedSolution, solve_relaxed
from mfcp.matching.relaxed.gradients import Gradient, Implicit, Randomness
from mfcp.matching.relaxed.objective import BETA, LAM, TAU, balanced_makespan, relaxed_problem
from mfcp.matching.relaxed.shortfall import Shortfall, solve_shortfall
from mfcp.matching.speedup import SpeedUp


def relaxed_matching(
    T: Tensor,
    A: Tensor,
    gamma: Tensor | float,
    beta: Tensor | float | None = None,
    lam: Tensor | float | None = None,
    tau: Tensor | float | None = None,
    *,
    allowed: Tensor | None = None,
    gradient: Gradient | None = None,
    generator: Randomness | None = None,
    speedup: SpeedUp | None = None,
    shortfall: Shortfall | None = None,
) -> Tensor:
    """(..., M, N) relaxed plans, differentiable in T and A, of the precision of T; columns sum to one.

    The `X` of `relaxed_solution`, which says what the arguments are. A round whose gamma is out of reach yields its
    most reliable plan, one that does not converge its last iterate; both carry zero gradient, and neither disturbs
    another round.

    Without weights the plan is found in units of each round's `balanced_makespan`, at `BETA`, `LAM` and `TAU`: it does
    not depend on whether T is in seconds or hours, and the derivative takes the unit's own into account.

    Raises:
        SettingsError: one or two of beta, lam and tau; and as `relaxed_solution`.
    """
    times, weights = torch.as_tensor(T), {"beta": beta, "lam": lam, "tau": tau}
    given: dict[str, Any] = {name: weight for name, weight in weights.items() if weight is not None}
    options: dict[str, Any] = {"allowed": allowed, "gradient": gradient, "generator": generator}
    options |= {"speedup": speedup, "shortfall": shortfall}
    if not given:
        X = plan_in_units(times, A, gamma, **options).X
    elif len(given) == len(weights):
        X = relaxed_solution(times, A, gamma, **given, **options).X
    else:
        missing = " and ".join(name for name in weights if name not in given)
        raise SettingsError(f"{missing} not given: give beta, lam and tau, in seconds, or none of them")
    return X.to(times.dtype)


def plan_in_units(T: Tensor, A: Tensor, gamma: Tensor | float, **options: Any) -> RelaxedSolution:
    """`relaxed_solution` at the default weights, with T and all prices in units of each round's balanced makespan."""
    relaxed_problem(T, A, gamma, BETA, LAM, TAU, options.get("allowed"), options.get("speedup"))  # errors in seconds
    unit = balanced_makespan(T, options.get("allowed"))[..., None, None]
    return relaxed_solution(T / unit, A, gamma, BETA, LAM, TAU, **options)


# Over 60 lines: 34 of them say what each argument is.
def relaxed_solution(
    T: Tensor,
    A: Tensor,
    gamma: Tensor | float,
    beta: Tensor | float,
    lam: Tensor | float,
    tau: Tensor | float,
    *,
    allowed: Tensor | None = None,
    gradient: Gradient | None = None,
    generator: Randomness | None = None,
    speedup: SpeedUp | None = None,
    shortfall: Shortfall | None = None,
    restarts: int = RESTARTS,
    start: RelaxedSolution | None = None,
    tolerance: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
    backend: Backend = "auto",
) -> RelaxedSolution:
    """The relaxed plans that minimise F, with prices and a status per round.

    Eq. (10) of [Huo2025]_: X*(T, A) = argmin over column-stochastic X of F(X; T, A), `relaxed_objective` with tau.

    Args:
        T: (..., M, N) seconds, any device; leading dimensions are rounds. Whatever their precision, the solution is
            computed and returned in float64.
        A: (..., M, N) success probabilities.
        gamma: least mean success probability; this and the next three a number or one per round (...), and
            constants: no derivative with respect to them is taken.
        beta: sharpness of the smooth maximum, 1 / seconds.
        lam: weight of the reliability barrier, seconds.
        tau: weight of the entropy, seconds.
        allowed: (..., M, N) booleans; where False X is exactly 0, and so is the gradient.
        gradient: rule of differentiation; default `Implicit()`.
        generator: randomness of `ZerothOrder`; default seeded by its `seed`.
        speedup: curve of parallel execution; the problem is then not convex and X the best local optimum found.
        shortfall: with it the reliability term is price · E[shortfall] instead of the barrier, lam is not used, and no
            gamma is out of reach; see `shortfall.py`. Not with `speedup`, and with the implicit derivative only.
        restarts: starting plans of the local solver, with `speedup`.
        start: the solution of near-by rounds of the same shape: its prices, or with `speedup` its plan, to start from.
        tolerance: relative optimality residual at which a round stops.
        max_steps: interior point steps of a round at most, in each of up to four attempts.
        backend: "torch" runs anywhere and is the definition; "compiled" is the same for the CPU; "auto" chooses.

    Raises:
        DataError, SettingsError, InfeasibleError: bad input, see `relaxed_problem`. An unreachable gamma is a
            status, not an error; `RelaxedSolution.require` turns it into one.
    """
    problem = relaxed_problem(T, A, gamma, beta, lam, tau, allowed, speedup)
    near = None if start is None else start.reshaped((len(problem.T),))
    if shortfall is not None:
        if not isinstance(gradient, Implicit | None):
            raise SettingsError(f"shortfall goes with gradient 'implicit' only, not '{gradient.name}'")
        problem, solution = solve_shortfall(
            problem, shortfall, tolerance=tolerance, max_steps=max_steps, start=near, backend=backend
        )
    else:
        solution = solve_relaxed(
            problem, tolerance=tolerance, max_steps=max_steps, start=near, restarts=restarts, backend=backend
        )
    X = solution.X
    if torch.is_grad_enabled() and (problem.T.requires_grad or problem.A.requires_grad):
        X = (gradient or Implicit()).attach(problem, solution, generator, backend)
    return dataclasses.replace(solution, X=X).reshaped(problem.batch)
