"""The collector's thread waits for a busy connection, and the event loop's does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sqlite3, sys, threading, time
from flows.prefect_server import collect_aside

gc.disable()
connection = sqlite3.connect(":memory:", check_same_thread=False)
cursor = connection.execute("select 1 union all select 2")
cursor.fetchone()
cycle = [cursor]
cycle.append(cycle)
del cycle, cursor
begun, ended = threading.Event(), threading.Event()


def goes_on():
    begun.set()
    return ended.is_set()


connection.set_progress_handler(goes_on, 1000)


def work():
    try:
        connection.execute("with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c")
    except sqlite3.OperationalError as error:
        assert "interrupted" in str(error)


worker = threading.Thread(target=work)
worker.start()
threading.Timer(6, ended.set).start()
begun.wait()
if sys.argv[1] == "here":
    gc.collect()
else:
    collect_aside()
    time.sleep(2)  # the collector waits by now
print("waited" if ended.is_set() else "free")
ended.set()
worker.join()
"""


@pytest.mark.parametrize(("where", "said"), [("here", "waited"), ("aside", "free")])
def test_who_collects_waits_for_what_a_connection_is_at(where: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, where], capture_output=True, text=True, check=True)
    assert done.stdout == f"{said}\n"


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
