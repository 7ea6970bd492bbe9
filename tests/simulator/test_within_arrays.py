"""Kernels read and write within their arrays: as plain Python, where NumPy looks at every index, they do the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

PROGRAM = """
import json, sys
import numpy as np
from benchmarks.simulator import drawn
from mfcp.simulator.clocks import events
from mfcp.simulator.kernels import books as columns
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.policies.base import Ordering, Policy
from mfcp.simulator.semantics import preset
from mfcp.simulator.simulation import import_policies, simulate


class Row(np.void):
    "A row whose fields are attributes, as they are in compiled code, `size` among them."

    def __getattribute__(self, name):
        own = super().__getattribute__
        return self[name] if name in own("dtype").fields else own(name)

    def __setattr__(self, name, value):
        self[name] = value


def by_name(table):
    return table.view(np.dtype((Row, table.dtype)))


def named(make):
    def made(*arguments, **options):
        books = make(*arguments, **options)
        return books._replace(**{name: by_name(getattr(books, name)) for name in ("jobs", "nodes", "kinds", "log")})

    return made


if sys.argv[1:]:
    enter = columns._enter
    columns._enter = lambda rows, given: enter(by_name(rows), given)
    events.fresh_books, events.longer_log = map(named, (events.fresh_books, events.longer_log))
import_policies()
told = {}
for name in sorted(Policy.members):
    policy = Policy.members[name]()
    if isinstance(policy, Ordering) and "deadline" not in policy.uses:
        for terms in ("plain", "muri"):
            jobs = drawn(100, 16, 1.2, seed=1)
            outcome = simulate(jobs, Cluster.parse("2x8"), policy, semantics=preset(terms))
            told[name + " " + terms] = outcome.finished.tolist()
print(json.dumps(told))
"""


def ends(*arguments: str, **variables: str) -> dict[str, list[float]]:
    """Of jobs under every policy that orders them."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=Path(__file__).parents[2], env=os.environ | variables,
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_kernels_do_the_same_as_plain_python_which_looks_at_every_index():
    plain, compiled = ends("named", NUMBA_DISABLE_JIT="1"), ends()
    assert len(compiled) >= 16
    assert set(plain) == set(compiled)
    for name, seconds in compiled.items():
        assert np.allclose(plain[name], seconds, rtol=1e-12), name
