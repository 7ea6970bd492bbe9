"""`python -m mfcp.profiling.task`: some training steps of one model, as a job of a cluster; it reports their time."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

from mfcp.environment import collect_seldom
from mfcp.errors import SettingsError, guarded

WARM_UP = 1  # steps whose time does not count, but that are run


def main(arguments: list[str] | None = None) -> None:
    """Train, and write the median step time to the file that MFCP_REPORT names, else to the terminal."""
    parser = argparse.ArgumentParser(prog="python -m mfcp.profiling.task", description=__doc__)
    parser.add_argument("--model", required=True, metavar="ID", help="of the zoo, as `mfcp capture --list` names it")
    parser.add_argument("--batch", type=int, required=True, metavar="N", help="samples of a step")
    parser.add_argument("--samples", type=float, required=True, metavar="N", help="in all")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the CPU (1)")
    options = parser.parse_args(arguments)
    collect_seldom()
    from mfcp.profiling import work
    from mfcp.profiling.subjects import subjects

    if options.batch < 1 or options.threads < 1 or not options.samples > 0:
        raise SettingsError("--batch, --samples, --threads: expected numbers above 0")
    (subject,) = subjects([f"zoo:{options.model}"], [])
    steps = max(1, round(options.samples / options.batch))
    result: dict[str, Any] = work.train(
        subject.spec, options.batch, precision="fp32", optimizer=subject.optimizer, device="cpu",
        threads=options.threads, memory=None, warmup=WARM_UP, steps=steps, total=None, seed=0,
    )  # fmt: skip
    told = json.dumps({"step_time_s": median(result["step_times"]), "batch_size": options.batch})
    if report := os.environ.get("MFCP_REPORT"):
        Path(report).write_text(told)
    else:
        print(told)


if __name__ == "__main__":
    sys.exit(guarded(main))
