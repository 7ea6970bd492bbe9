"""A platform with two rounds, tasks that wait and a challenger, and its page on a real socket."""

import pytest
from platform_log import misled, small_log, small_release
from platform_served import LOG, listening

from mfcp.platform.deciding.rounds import MatchSettings, match_round
from mfcp.platform.page.app import create_app
from mfcp.platform.page.board import Board
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Note, Store

TOKEN = "a-token-of-some-length"


def handed_in(count, start):
    own = small_log(count, seed=start, start=start)
    return {name: own[name] for name in ("tasks", "nodes", "edges")}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    store = Store(f"sqlite:///{home}/platform.db")
    models = Models(home, store)
    small_release(home / "one", LOG)
    small_release(home / "two", misled(LOG))
    models.add(home / "one", {"mae": 0.1})
    for start, gamma in ((1000, None), (1100, 0.9)):
        store.submit(handed_in(12, start))
        match_round(store, models, MatchSettings(gamma=gamma))
    models.add(home / "two", {"mae": 0.2})
    store.submit(handed_in(15, 1200))
    content = {"key": "time of b at r", "stream": "time of b", "at": "r", "absorbed": False}
    store.post([Note("monitor.time.rms.a", 0.2), Note("drift", kind="event", content=content)])
    return home


@pytest.fixture(scope="module")
def store(home):
    return Store(f"sqlite:///{home}/platform.db")


@pytest.fixture(scope="module")
def board(home, store):
    return Board.of_platform(home, store)


@pytest.fixture(scope="module")
def client(board):
    with listening(create_app(board, token=TOKEN)) as client:
        yield client
