"""Constants of the solver of the relaxed problem, for its torch definition and its compiled twin alike."""

from __future__ import annotations

# Of `interior_point.py`.
CENTRING = 0.03  # least factor on mu per step
INSIDE = 0.9  # least share of the way to the boundary that a step may go; grows to 1 as mu falls
LONG = 0.5  # a last step at least this long means that the iterate follows mu

# Of `dual_newton.py`.
# Phase 1 of each attempt: barrier at the end, whether tasks are shared by speed at the start, refinements. The first
# does for all but one in hundreds of extreme rounds; the starts fail on different ones.
ATTEMPTS = ((1e-2, False, 0), (1e-4, True, 2), (1e-6, False, 2), (1e-8, True, 2), (1e-8, False, 2))
DUAL_STEPS = 12
PATIENCE, NEAR = 3, 0.5  # a given start that so many steps leave further off, relatively, is given up: it may cycle
POLISH_STEPS = 6
REFINEMENTS = 2
LARGEST_STEP = 3.0  # cap on the growth of a log price that matters
LOWEST = -600.0  # a log price below has no effect on the plan; keeps p and sqrt(p) normal numbers
USED = 1e-300  # entries of X below are zero for the optimality conditions
FAINT = 1e-150  # and should be at least half as far below 1, by their logarithm
