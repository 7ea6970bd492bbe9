"""Prefect's server with its garbage collected beside its event loop: `python -m flows.prefect_server start --port N`.

Prefect keeps its state in SQLite here. A cursor in a cycle of references is let go by Python's collector in whatever
thread that happens to run, and letting go waits for the cursor's connection. Where that is the event loop's thread, and
the connection waits for the lock of the database, and who holds the lock is a coroutine, nothing goes on until SQLite
gives up, after 60 s. In a thread of its own the collector waits alone.
"""

from __future__ import annotations

import gc
import itertools
import runpy
import sys
import threading
import time

EVERY_S = 1.0
WHOLE = 60  # collections of young objects to one of all


def collect_aside() -> None:
    """From now on garbage is collected in a thread of its own, every second, and nowhere else."""
    gc.disable()
    threading.Thread(target=_collect, name="garbage collector", daemon=True).start()


def _collect() -> None:
    for count in itertools.count(1):
        time.sleep(EVERY_S)
        gc.collect(2 if count % WHOLE == 0 else 1)


def main() -> None:
    """`prefect server` with the same arguments."""
    collect_aside()
    sys.argv = ["prefect", "server", *sys.argv[1:]]
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
