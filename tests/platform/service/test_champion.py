"""The champion of the moment answers; a damaged one is refused."""

import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from platform_log import misled, small_log, small_release

from mfcp.platform.releases.models import Models
from mfcp.platform.service.api import ServeSettings, create_app
from mfcp.platform.service.champion import Champion
from mfcp.platform.state.store import Store

LOG = small_log()
NEW = small_log(6, seed=9, start=500)
pytestmark = pytest.mark.xdist_group("api")  # one worker makes what they share


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Two releases' folders."""
    folder = tmp_path_factory.mktemp("releases")
    small_release(folder / "one", LOG)
    small_release(folder / "two", misled(LOG))
    return folder / "one", folder / "two"


@contextmanager
def serving(champion, settings=None, token=None):
    """A client of the service on a free port."""
    app = create_app(champion, settings or ServeSettings(), token=token)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # a client waits for a server that is still starting, instead of being refused
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def ready(client, version=None):
    state = client.get("/health")
    return state.status_code == 200 and version in (None, state.json()["version"])


@pytest.fixture(scope="module")
def platform(tmp_path_factory, releases):
    """A home whose store knows the graphs of the new tasks, and a champion."""
    home = tmp_path_factory.mktemp("home")
    store = Store(f"sqlite:///{home}/platform.db")
    store.submit({name: NEW[name] for name in ("tasks", "nodes", "edges")})
    Models(home, store).add(releases[0], {})
    return home, store


@pytest.fixture(scope="module")
def client(platform):
    home, store = platform
    settings = ServeSettings(tasks=8, operators=50, body_mib=0.05)
    with serving(Champion.of_platform(home, store, graphs=100), settings) as client:
        until(lambda: ready(client))
        yield client


def answer(client, path, **body):
    response = client.post(f"/v1/{path}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


TASK = {"task_id": "x"}


def test_the_champion_of_the_moment_answers_and_a_damaged_one_does_not(tmp_path, releases):
    store = Store(f"sqlite:///{tmp_path}/platform.db")
    with serving(Champion.of_platform(tmp_path, store, graphs=10)) as client:
        until(lambda: "no champion yet" in client.get("/health").text)
        waiting = client.post("/v1/match", json={"tasks": [TASK]})
        assert client.get("/health").status_code == waiting.status_code == 503
        models = Models(tmp_path, store)
        first = models.add(releases[0], {})
        until(lambda: ready(client, first))
        second = models.add(releases[1], {})
        assert answer(client, "predict", tasks=[TASK])["version"] == first
        models.promote(second, "test")
        until(lambda: ready(client, second))
        models.rollback("test")
        until(lambda: ready(client, first))


def test_a_damaged_champion_is_refused_and_the_one_before_goes_on(tmp_path, releases):
    store = Store(f"sqlite:///{tmp_path}/platform.db")
    models = Models(tmp_path, store)
    first, second = models.add(releases[0], {}), models.add(releases[1], {})
    champion = Champion.of_platform(tmp_path, store, graphs=10)
    champion.refresh()
    assert champion.version == first
    models.promote(second, "test")
    (tmp_path / "models" / second / "model.safetensors").write_bytes(b"x")
    champion.refresh()
    assert champion.version == first
    assert champion.state["status"] == "ready"
    assert second in champion.state["warning"]
    (tmp_path / "models" / first / "manifest.json").unlink()
    champion._again = 0.0  # half a minute later
    champion.refresh()
    assert champion.version == first  # in memory, and whole there
