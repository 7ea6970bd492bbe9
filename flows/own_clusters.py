"""Two Slurm clusters of one's own under a platform (`make platform CLUSTERS=slurm`): its sections of params.yaml.

They are unlike on purpose: beta's jobs do without the vector instructions of today's processors, which costs
convolutions and products of matrices several times as much, and the rest little.
"""

from __future__ import annotations

import shlex
import sys
from typing import Any

from flows.slurm import OwnCluster, OwnSlurm
from flows.zoo_tasks import COMMAND

OWN = (OwnCluster("alpha"), OwnCluster("beta"))  # a core each
SLOWER = {"beta": "ONEDNN_MAX_CPU_ISA=SSE41 ATEN_CPU_CAPABILITY=default "}
EVERY_S = {"match": 20, "ingest": 20, "monitor": 600, "retrain": 600, "run": 60}


def sections(slurm: OwnSlurm) -> dict[str, dict[str, Any]]:
    """What params.yaml says of them; receipts are in their folder.

    Releases are compared early: every task runs on both clusters, and more tasks are kept back than usual.
    """
    command = COMMAND.format(python=shlex.quote(sys.executable).replace("{", "{{").replace("}", "}}"))
    clusters = {
        name: {
            "executor": {"kind": "slurm", "folder": str(slurm.root / f"spool-{name}"), "conf": str(slurm.conf(name))},
            "command": f"env OMP_NUM_THREADS=1 {SLOWER.get(name, '')}{command}",
            "figures": {"accelerator": "one core", "accelerator_count": 1, "software": SLOWER.get(name, "").strip()},
        }
        for name in slurm.clusters
    }
    run = {"seconds": 300.0, "memory_bytes": 3 << 30, "deliver_s": 10.0, "compare": 1.0}
    platform = {"every_s": EVERY_S, "clusters": clusters, "run": run, "promote": {"tasks": 4, "least_tasks": 12}}
    return {"platform": platform, "release": {"held_back": 0.4}}
