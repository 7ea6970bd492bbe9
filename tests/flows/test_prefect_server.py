"""The collector's thread waits for a busy connection, and the event loop's does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sqlite3, sys, threading, time
from flows.prefect_server import collect_aside

if sys.argv[1] == "aside":
    collect_aside()
connection = sqlite3.connect(":memory:", check_same_thread=False)
cursor = connection.execute("select 1 union all select 2")
cursor.fetchone()
cycle = [cursor]
cycle.append(cycle)
del cycle, cursor
ended = threading.Event()
connection.set_progress_handler(ended.is_set, 1000)


def work():
    try:
        connection.execute("with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c")
    except sqlite3.OperationalError:
        print("interrupted", flush=True)


worker = threading.Thread(target=work)
worker.start()
threading.Timer(4, ended.set).start()
time.sleep(0.3)
if sys.argv[1] == "here":
    gc.collect()
else:
    time.sleep(2)  # the collector waits by now
print("free" if worker.is_alive() else "waited", flush=True)
ended.set()
worker.join()
"""


@pytest.mark.parametrize(("where", "said"), [("here", ["interrupted", "waited"]), ("aside", ["free", "interrupted"])])
def test_who_collects_waits_for_what_a_connection_is_at(where: str, said: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, where], capture_output=True, text=True, check=True)
    assert done.stdout.split() == said


def test_cycles_go_without_the_automatic_collector() -> None:
    program = (
        "import gc, time, weakref\n"
        "from flows import prefect_server\n"
        "prefect_server.collect_aside()\n"
        "class Own: pass\n"
        "own = Own(); own.self = own; left = weakref.ref(own); del own\n"
        "until = time.monotonic() + 20\n"
        "while left() is not None and time.monotonic() < until: time.sleep(0.1)\n"
        "print(gc.isenabled(), left() is None)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
