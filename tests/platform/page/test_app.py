"""The page over a real socket: what each page shows, and what it refuses."""

import re
from html import unescape

import pandas as pd
import pytest
from platform_log import small_log
from platform_served import listening

from mfcp.platform.deciding.rounds import MatchSettings, match_round
from mfcp.platform.page.app import create_app
from mfcp.platform.page.board import Board
from mfcp.platform.releases.models import Models
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store

pytestmark = pytest.mark.xdist_group("page")  # one worker makes what they share
TOKEN = "a-token-of-some-length"


def shown(client, path, status=200, **query):
    answer = client.get(path, params=query or None)
    assert answer.status_code == status, answer.text
    return unescape(answer.text)


def test_the_overview_tells_the_last_round(client, store):
    text = shown(client, "/")
    assert "Round 2 placed 12 tasks" in text
    assert "where 90.0 % are asked for" in text
    assert "15 tasks" in text
    assert text.count("<rect class=") == 12
    assert f"release {store.models()['version'][0]}" in text


def test_rounds_link_to_their_plans_and_these_to_their_reasons(client, store):
    assert '<a href="/rounds/2">' in shown(client, "/rounds")
    task = store.assignments(round_id=2)["task_id"][0]
    assert f"/rounds/2/task?task={task}" in shown(client, "/rounds/2")
    text = shown(client, "/rounds/2/task", task=task)
    assert f"Why {task} runs on" in text
    assert "The next best is" in text


def test_the_plan_is_the_same_with_and_without_the_script(client):
    query = {"source": "pending", "gamma": "0.95", "backlog.a": "100", "off.b": "1"}
    whole, part = shown(client, "/what-if", **query), shown(client, "/what-if/plan", **query)
    assert part.strip() in whole
    assert "<html" not in part
    assert 'name="off.b" type="checkbox" value="1" checked' in whole
    assert 'value="100"' in whole
    assert "would move" in part
    assert "/what-if/task?source=pending&gamma=0.95&backlog.a=100&off.b=1&task=" in part


def test_a_reason_under_wishes_is_of_the_plan_under_them(client):
    told = shown(client, "/what-if/task", **{"source": "pending", "off.a": "1", "task": "task1201"})
    assert "Why task1201 runs on" in told
    assert "/what-if?source=pending&off.a=1" in told
    assert '<th scope="row">a' not in told


def test_clusters_and_releases(client):
    assert "× 1.22" in shown(client, "/clusters")
    text = shown(client, "/releases")
    assert "the first release of this platform" in text
    assert "challenger" in text


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/nowhere", 404, "Not Found"),
        ("/rounds/99", 404, "round 99: not known here"),
        ("/rounds/99999999999999999999", 404, "not known here"),
        ("/what-if?source=99999999999999999999", 404, "there are none; choose one of pending, 2, 1"),
        ("/what-if?source=2%00", 404, "there are none"),
        ("/rounds/2/task?task=nobody", 404, "no task 'nobody' in this round of 12"),
        ("/what-if?source=99", 404, "tasks '99': there are none; choose one of pending, 2, 1"),
        ("/what-if?gamma=much", 422, "gamma: expected a number, got 'much'"),
        ("/what-if?backlog.a=1e", 422, "backlog.a: expected a number, got '1e'"),
        ("/what-if/task?gamma=2&task=task1201", 422, "gamma: expected a mean reliability in [0, 1], got 2.0"),
        ("/what-if?gamma=2", 200, "gamma: expected a mean reliability in [0, 1], got 2.0"),
        ("/what-if?gamma=nan", 200, "gamma: expected a mean reliability in [0, 1], got nan"),
        ("/what-if?price=inf", 200, "price: expected a finite number"),
        ("/what-if?backlog.a=-1", 200, "backlog of a: expected a finite number, at least 0, got -1.0"),
        ("/what-if?off.a=1&off.b=1&off.c=1", 200, "no cluster is left: switch at least one on"),
    ],
)
def test_what_cannot_be_shown_says_why(client, path, status, told):
    assert told in shown(client, path, status)


def test_names_that_look_like_markup_are_text(client, store, home):
    evil = "<script>alert(1)</script>"
    for path in ("/what-if", "/rounds/2/task", "/what-if/task"):
        text = client.get(path, params={"source": evil, "task": evil, "gamma": ""}).text
        assert evil not in text
        assert path == "/rounds/2/task" or "&lt;script&gt;" in text


def test_nothing_of_another_host_is_loaded_and_none_may_frame_or_read_it(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    assert client.get("/static/page.css").headers["content-security-policy"] == policy
    assert client.get("/static/../board.py").status_code == 404
    assert client.get("/static/%2e%2e/board.py").status_code == 404
    assert client.post("/what-if").status_code == 405


@pytest.mark.parametrize("token", ["", "a-token-of-some-lengti", "ä"])
def test_without_the_token_nothing_is_promoted(client, store, token):
    before = len(store.champions())
    answer = client.post("/releases", data={"version": store.models()["version"][1], "token": token})
    assert answer.status_code == 403
    assert "That is not the token. Nothing was changed." in answer.text
    assert len(store.champions()) == before


def test_with_the_token_a_release_decides_and_can_be_rolled_back(client, store, board):
    first, second = store.models()["version"]
    assert client.post("/releases", data={"version": "nobody", "token": TOKEN}).status_code == 409
    try:
        answer = client.post("/releases", data={"version": second, "token": TOKEN})
        assert (answer.status_code, answer.headers["location"]) == (303, "/releases")
        assert board.models.current() == second
        assert store.champions()["why"].iloc[-1] == "by hand, on the page"
    finally:
        client.post("/releases", data={"version": first, "token": TOKEN})
        board._looked = float("-inf")
        board.refresh()


def test_a_form_is_small(client):
    assert client.post("/releases", content=b"x" * 5000).status_code == 413


def test_a_page_that_was_started_without_a_token_only_reads(board, store):
    with listening(create_app(board)) as client:
        assert 'type="password"' not in client.get("/releases").text
        form = {"version": store.models()["version"][1], "token": ""}
        assert client.post("/releases", data=form).status_code == 403
    assert len(store.champions()) == len(store.champions())


def test_an_empty_platform_says_what_to_do(tmp_path):
    board = Board.of_platform(tmp_path, Store(f"sqlite:///{tmp_path}/platform.db"))
    with listening(create_app(board)) as client:
        assert "No release decides: no champion yet" in shown(client, "/")
        assert "No round has been matched yet." in shown(client, "/rounds")
        assert "mfcp platform submit --tasks FILE" in shown(client, "/what-if")
        assert "No release yet." in shown(client, "/releases")
        assert "no cluster is known" in shown(client, "/clusters")


def test_a_release_alone_without_tasks_says_what_to_do(home):
    with listening(create_app(Board.of_release(home / "one", None))) as client:
        assert "mfcp ui --model DIR --tasks FILE" in shown(client, "/what-if")
        assert "Releases" not in shown(client, "/")


def platform_of(home, folder, *, tasks):
    """A platform of its own with a release and pending tasks: its state, its models, the tasks' names."""
    store = Store(f"sqlite:///{folder}/platform.db")
    models = Models(folder, store)
    models.add(home / "one", {})
    own = small_log(tasks, seed=5, start=3000)
    store.submit({name: own[name] for name in ("tasks", "nodes", "edges")})
    return store, models, own["tasks"]["task_id"].tolist()


def test_a_round_shows_what_was_measured_before_it_and_how_it_came_out(home, tmp_path):
    store, models, (first, second, *_) = platform_of(home, tmp_path, tasks=5)
    cells = pd.DataFrame({"task_id": [first, second], "cluster_id": ["a", "b"], "steps": 5, "saves": 0.01,
                          "saves_s": 9.0, "takes_s": 3.0})  # fmt: skip
    assert store.ask(cells) == 2
    assert store.answer(1, step_time_s=0.25)
    assert store.answer(2, error="out of memory")
    match_round(store, models, MatchSettings())
    with listening(create_app(Board.of_platform(tmp_path, store))) as client:
        text = shown(client, "/rounds/1")
    assert "Measured before it was decided" in text
    assert re.search(rf"{first}</th><td>a</td><td>9 s</td><td>3 s</td><td>0.25 s</td>", text)
    assert re.search(rf"{second}</th><td>b</td><td>9 s</td><td>3 s</td><td>out of memory</td>", text)


def test_what_if_begins_with_the_backlog_that_is_known(home, tmp_path):
    store, *_ = platform_of(home, tmp_path, tasks=5)
    Attempts(store).report("a", up=True, why="", backlog_s=500.0)

    def field(client, **wish):
        (found,) = re.findall(r'name="backlog.a" [^>]* value="([^"]*)"', client.get("/what-if", params=wish).text)
        return found

    with listening(create_app(Board.of_platform(tmp_path, store))) as client:
        assert field(client) == "500"
        assert field(client, **{"backlog.a": "20"}) == "20"
        page = client.get("/what-if", params={"backlog.a": "", "gamma": ""}).text
        assert re.findall(r'name="backlog.a" [^>]* value="([^"]*)"', page) == [""]  # emptied: it is idle
        assert set(re.findall(r"/what-if/task\?([^\"]*)&amp;task=", page)) == {"backlog.a="}


def test_what_became_of_tasks_on_real_clusters_is_told(home, tmp_path):
    store, models, (one, two, three) = platform_of(home, tmp_path, tasks=3)
    attempts = Attempts(store)
    for name in "abc":
        attempts.report(name, up=True, why="", backlog_s=1.0)
    match_round(store, models, MatchSettings())
    same = {"state": "planned", "command": "true", "limits": {}, "status": None, "why": None, "seconds": 1.0}
    attempts.plan([{**same, "task_id": task, "cluster_id": "a", "number": 1} for task in (one, two)])
    first, _ = attempts.open()
    attempts.begin({first["id"]: 1.7e9})
    again = {**same, "task_id": one, "cluster_id": "b", "number": 2}
    attempts.finish(first["id"], {"status": "node_fail", "why": "<its> node", "receipt": {"wall_s": 7.0}}, again)
    attempts.report("a", up=False, why="drained: <new> cooling", backlog_s=30.0)
    attempts.report("far", up=True, why="", backlog_s=None)
    with listening(create_app(Board.of_platform(tmp_path, store))) as client:
        plan, why, clusters = (
            shown(client, "/rounds/1"),
            shown(client, "/rounds/1/task", task=one),
            client.get("/clusters"),
        )
        assert "What became of it" not in shown(client, "/rounds/1/task", task=three)
    cells = dict(re.findall(r'<th scope="row">(\S+)</th>.*<td>([^<]*)</td><td><a', plan))
    assert 'class="wait"' in plan
    assert "busy before" in plan
    assert cells == {one: "waits to be handed in on b, attempt 2", two: "waits to be handed in", three: "not yet"}
    assert "<td>a</td><td>none yet</td><td>2023-11-14 22:13 UTC</td><td>7 s</td><td>node fail: <its> node</td>" in why
    assert "drained: &lt;new&gt; cooling" in clusters.text
    assert "queue when it was last asked" in clusters.text
    assert re.search(r"<th scope=\"row\">far</th><td>yes</td><td>unknown</td>", clusters.text)
