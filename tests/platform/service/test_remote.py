"""The desk in a process of its own: the same answers, and what happens when that process ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from platform_served import NEW, answer, listening, ready, until

from mfcp.errors import DataError, MfcpError
from mfcp.platform.service.api import create_app
from mfcp.platform.service.champion import Champion
from mfcp.platform.service.desk import Desk
from mfcp.platform.service.protocol import ServeSettings
from mfcp.platform.service.remote import Origin, RemoteDesk, origin_of

pytestmark = pytest.mark.xdist_group("api")  # one worker makes what they share

SETTINGS = ServeSettings(tasks=8, operators=50, body_mib=0.05, threads=1)


def tasks():
    return json.loads(NEW["tasks"].to_json(orient="records"))


@pytest.fixture
def desk(releases):
    own = RemoteDesk(Origin(folder=releases[0]), SETTINGS, token=False)
    yield own
    own.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_its_threads_share_one_arena(desk):
    environment = Path(f"/proc/{desk._process.pid}/environ")
    until(environment.read_bytes)  # empty for a moment, while the process becomes another program
    assert b"MALLOC_ARENA_MAX=1" in environment.read_bytes().split(b"\0")


def told_ready(desk):
    desk.refresh()
    return desk.state["status"] == "ready"


@pytest.mark.slow
def test_it_tells_what_a_desk_here_tells(desk, releases):
    here = Desk(Champion.of_folder(releases[0], graphs=10), SETTINGS)
    here.refresh()
    assert desk.state == {"status": "not ready", "reason": "starting: the champion is being loaded"}
    until(lambda: told_ready(desk))
    assert desk.state == here.state
    graphless = [{"task_id": "x", "batch_size": 8}]
    for name, body in (
        ("predict", {"tasks": graphless}),
        ("match", {"tasks": graphless, "gamma": 0.7}),
        ("match", {"tasks": []}),
        ("explain", {"tasks": graphless, "clusters": ["nowhere"]}),
        ("predict", "no object"),
    ):
        sent = json.dumps(body).encode()
        assert desk.answer(name, sent, "r") == here.answer(name, sent, "r"), name
    assert desk.document() == here.document()


@pytest.mark.slow
def test_a_process_that_dies_is_started_again_and_nobody_hangs(desk):
    with listening(create_app(desk, SETTINGS)) as client:
        until(lambda: ready(client))
        first = desk._process
        os.kill(first.pid, signal.SIGKILL)
        refused = client.post("/v1/predict", json={"tasks": [{"task_id": "x"}]})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert "started again" in refused.json()["error"]
        until(lambda: client.get("/health").status_code == 503)
        until(lambda: ready(client))
        assert desk._process.pid != first.pid
        assert answer(client, "predict", tasks=[{"task_id": "x"}])["tasks"]


@pytest.mark.slow
def test_a_folder_that_is_no_release_ends_the_service(tmp_path, releases):
    broken = tmp_path / "broken"
    broken.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "mfcp.cli", "serve", "--model", str(broken), "--port", "0"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert f"{broken}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_process_ends_with_the_service(releases):
    service = subprocess.Popen(
        [sys.executable, "-m", "mfcp.cli", "serve", "--model", str(releases[0]), "--port", "0"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert service.stdout.readline().startswith("answers at http://127.0.0.1:")
    (child,) = [
        own for own in psutil.Process(service.pid).children() if "resource_tracker" not in " ".join(own.cmdline())
    ]
    service.kill()
    service.communicate()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_the_listening_process_imports_nothing_heavy():
    program = (
        "import sys; import mfcp.platform.service.api, mfcp.platform.service.remote, mfcp.commands.operating.serve\n"
        "print([name for name in ('torch', 'pandas', 'numba', 'scipy', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_folder_that_is_not_there_is_named_at_once(tmp_path):
    begin = time.monotonic()
    with pytest.raises(DataError, match="no such release"):
        origin_of(tmp_path / "nowhere", tmp_path)
    assert time.monotonic() - begin < 1
    assert origin_of(None, tmp_path) == Origin(home=tmp_path)
    with pytest.raises(MfcpError, match="no platform here; make it with"):
        origin_of(None, tmp_path / "nowhere")
