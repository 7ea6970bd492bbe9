"""All case studies of the ADMM core, one after the other, and what they were to reach; options as in each.

Some five minutes on one core; OMP_NUM_THREADS=1 keeps the CPU seconds comparable.
Usage: python -m benchmarks.dede [--quick] [--out DIR]
       python -m benchmarks.dede --full            at the published size, see `benchmarks.dede.full`
"""

from __future__ import annotations

import sys

from benchmarks.dede import cluster_scheduling, full, load_balancing, traffic
from benchmarks.dede.study import verdicts

if __name__ == "__main__":
    if "--full" in sys.argv:
        full.main([option for option in sys.argv[1:] if option != "--full"])
        sys.exit()
    programs = (cluster_scheduling, traffic, load_balancing)
    verdicts([requirement for program in programs for requirement in program.main(sys.argv[1:])])
