"""The matching problem of [Huo2025]_, its exact and relaxed solutions, and their derivatives.

Names are imported on first use, so that solving given matrices exactly does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mfcp.matching.planning import solve, solve_or_fall_back
    from mfcp.matching.problem import MatchingProblem, Solution
    from mfcp.matching.relaxed.argmin import RelaxedSolution, Status
    from mfcp.matching.relaxed.gradients import Gradient, Implicit, Unrolled, ZerothOrder
    from mfcp.matching.relaxed.relaxed_plan import relaxed_matching, relaxed_solution
    from mfcp.matching.speedup import SpeedUp

_HOMES = {
    "Capacity": "problem",
    "Engine": "engines.base",
    "MatchingProblem": "problem",
    "Objective": "problem",
    "Solution": "problem",
    "solve": "planning",
    "solve_or_fall_back": "planning",
    "Gradient": "relaxed.gradients",
    "Implicit": "relaxed.gradients",
    "Unrolled": "relaxed.gradients",
    "ZerothOrder": "relaxed.gradients",
    "SpeedUp": "speedup",
    "relaxed_matching": "relaxed.relaxed_plan",
    "relaxed_solution": "relaxed.relaxed_plan",
    "RelaxedSolution": "relaxed.argmin",
    "Status": "relaxed.argmin",
}

__all__ = [
    "Gradient",
    "Implicit",
    "MatchingProblem",
    "RelaxedSolution",
    "Solution",
    "SpeedUp",
    "Status",
    "Unrolled",
    "ZerothOrder",
    "relaxed_matching",
    "relaxed_solution",
    "solve",
    "solve_or_fall_back",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mfcp.matching' has no attribute '{name}'")
    return getattr(importlib.import_module(f"mfcp.matching.{_HOMES[name]}"), name)
