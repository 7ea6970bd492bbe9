"""All case studies of the ADMM core, one after the other; options as in each (`--quick` for a first look)."""

from __future__ import annotations

import sys

from benchmarks.dede import cluster_scheduling, load_balancing, traffic

if __name__ == "__main__":
    for program in (cluster_scheduling, traffic, load_balancing):
        program.main(sys.argv[1:])
