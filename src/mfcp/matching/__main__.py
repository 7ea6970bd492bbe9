"""`python -m mfcp.matching`: compile the kernels that most rounds need for this machine, where that is not done yet.

`python -m mfcp.matching large`: those of large rounds.
"""

from __future__ import annotations

import sys

from mfcp.environment import same_instructions

same_instructions()  # what the commands and stages use

from mfcp.compiling import compile_modules, prepared  # noqa: E402

if __name__ == "__main__":
    if sys.argv[1:] == ["large"]:
        import numpy as np

        from mfcp.matching.planning import solve
        from mfcp.matching.problem import MatchingProblem

        times = np.random.default_rng(0).lognormal(size=(8, 120))
        for engine in ("dual", "greedy"):
            solve(MatchingProblem(times, np.full(times.shape, 0.9), 0.5), engine)
    else:
        compile_modules(prepared("matching"))
