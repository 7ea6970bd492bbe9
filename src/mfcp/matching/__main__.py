"""`python -m mfcp.matching`: compile the kernels of matching for this machine, where that is not done yet.

First those that most rounds need, then, at a lower priority, those of large rounds.
"""

from __future__ import annotations

import os

from mfcp.environment import collect_seldom, same_instructions

collect_seldom()
same_instructions()  # what the commands and stages use

from mfcp.compiling import compile_modules, prepared  # noqa: E402

if __name__ == "__main__":
    compile_modules(prepared("matching"))  # before anything is imported that has kernels
    import numpy as np

    from mfcp.matching.planning import solve
    from mfcp.matching.problem import MatchingProblem

    os.nice(10)
    times = np.random.default_rng(0).lognormal(size=(8, 120))
    for engine, kind in (("dual", np.float64), ("greedy", np.float64), ("dual", np.float32)):
        solve(MatchingProblem(times.astype(kind), np.full(times.shape, 0.9, kind), 0.5), engine)
