"""Releases, and the service over a real socket."""

import socket
import threading
import time
from contextlib import contextmanager

import httpx
import uvicorn
from platform_log import small_log

from mfcp.platform.service.api import create_app
from mfcp.platform.service.desk import Desk
from mfcp.platform.service.protocol import ServeSettings

LOG = small_log()


NEW = small_log(6, seed=9, start=500)


@contextmanager
def serving(champion, settings=None, token=None):
    """A client of the service on a free port."""
    settings = settings or ServeSettings()
    desk = Desk(champion, settings, token=token is not None)
    with listening(create_app(desk, settings, token=token)) as client:
        yield client


@contextmanager
def listening(app):
    """A client of an application on a free port."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # a client waits for a server that is still starting, instead of being refused
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="auto"))
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


def answer(client, path, **body):
    response = client.post(f"/v1/{path}", json=body)
    assert response.status_code == 200, response.text
    return response.json()
