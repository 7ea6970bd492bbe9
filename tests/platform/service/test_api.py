"""The decision service over real sockets: answers, refusals, and which release gives them."""

import asyncio
import gc
import json
import logging
import re
import socket
import time
from contextlib import ExitStack

import pytest
from platform_log import CLUSTERS
from platform_served import NEW, answer, listening, ready, serving, until

from mfcp.platform.service.api import _Bytes, create_app
from mfcp.platform.service.champion import Champion
from mfcp.platform.service.desk import Desk
from mfcp.platform.service.protocol import ServeSettings
from mfcp.platform.state.attempts import Attempts
from mfcp.release.decision import decide

TOKEN = "a-token-of-some-length"

pytestmark = pytest.mark.xdist_group("api")  # one worker makes what they share


def rows(name="tasks"):
    return json.loads(NEW[name].to_json(orient="records"))


def test_predictions_are_the_releases(client, release):
    told = answer(client, "predict", tasks=rows())
    belief = release.predict(NEW)
    assert told["version"] == release.version
    for j, task in enumerate(told["tasks"]):
        assert task["task_id"] == NEW["tasks"]["task_id"].iloc[j]
        assert [one["cluster_id"] for one in task["clusters"]] == list(CLUSTERS)
        assert [one["seconds"] for one in task["clusters"]] == pytest.approx(belief.T[0, :, j])
        assert [one["reliability"] for one in task["clusters"]] == pytest.approx(belief.A[0, :, j])
        assert all(one["seconds_low"] < one["seconds"] < one["seconds_high"] for one in task["clusters"])


def test_a_match_is_the_releases_decision(client, release):
    told = answer(client, "match", tasks=rows(), gamma=0.85)
    decision = decide(release, NEW, gamma=0.85)
    assert [task["cluster_id"] for task in told["tasks"]] == list(decision.cluster_id)
    assert told["makespan"] == pytest.approx(decision.makespan)
    assert told["lower_bound"] <= told["makespan"]
    assert told["gamma"] == 0.85
    fewer = answer(client, "match", tasks=rows(), clusters=["a", "c"])
    assert {task["cluster_id"] for task in fewer["tasks"]} <= {"a", "c"}


def test_clusters_that_are_offline_are_not_chosen(client, platform):
    _, store = platform

    def until_offline(names):
        deadline = time.monotonic() + 30
        while (told := answer(client, "match", tasks=rows()))["offline"] != names:  # looked at once a second
            assert time.monotonic() < deadline
        return told

    store.set_online({"b": False})
    try:
        told = until_offline(["b"])
        assert {task["cluster_id"] for task in told["tasks"]} <= {"a", "c"}
        nowhere = client.post("/v1/match", json={"tasks": rows(), "clusters": ["b"]})
        assert nowhere.status_code == 503
        assert "no cluster is online of b" in nowhere.json()["error"]
    finally:
        store.set_online({"b": True})
        until_offline([])


def test_clusters_that_are_busy_are_known_or_told(client, platform):
    _, store = platform
    idle = answer(client, "match", tasks=rows())
    assert idle["backlog"] == {}
    told = answer(client, "match", tasks=rows(), backlog={"a": 1e6})
    assert told["backlog"] == {"a": 1e6}
    assert "a" in {task["cluster_id"] for task in idle["tasks"]}
    assert "a" not in {task["cluster_id"] for task in told["tasks"]}
    for wrong, status in (({"moon": 1}, 404), ({"a": -1}, 422), ({"a": "1"}, 422), ({"a": True}, 422), ([1], 422)):
        assert client.post("/v1/match", json={"tasks": rows(), "backlog": wrong}).status_code == status
    attempts = Attempts(store)
    attempts.report("a", up=True, why="", backlog_s=5e5)
    try:
        until(lambda: answer(client, "match", tasks=rows())["backlog"] == {"a": 5e5})  # looked at once a second
        known = answer(client, "explain", tasks=rows())
        assert "a" not in {task["cluster_id"] for task in known["tasks"]}
        assert answer(client, "match", tasks=rows(), backlog={}) == idle
    finally:
        attempts.report("a", up=True, why="", backlog_s=0.0)
        until(lambda: answer(client, "match", tasks=rows())["backlog"] == {})


def test_an_explanation_has_the_plan_and_the_case_for_it(client):
    told = answer(client, "explain", tasks=rows(), only=["task502"])
    where = {task["task_id"]: task["cluster_id"] for task in told["tasks"]}
    (one,) = told["explanations"]
    assert one["task_id"] == "task502"
    assert next(option["cluster_id"] for option in one["options"] if option["chosen"]) == where["task502"]
    assert sum(told["prices"]["cluster"].values()) == pytest.approx(1)
    assert one["text"].startswith("task502 → ")


def test_runs_that_ended_move_predictions_nominations_and_say_so(client):
    """A run of one of the tasks, and one of another task that comes along: both count, and nothing else moves."""
    before = answer(client, "match", tasks=rows())["tasks"]
    first, other = before[0], rows()[1] | {"task_id": "elsewhere"}
    ran = {"task_id": first["task_id"], "cluster_id": first["cluster_id"], "duration_s": 2 * first["seconds"],
           "status": "succeeded"}  # fmt: skip
    told = answer(client, "explain", tasks=rows(), observed=[ran], only=[first["task_id"]])
    moved = {task["task_id"]: task for task in told["tasks"]}[first["task_id"]]
    if moved["cluster_id"] == first["cluster_id"]:
        assert first["seconds"] < moved["seconds"] < 2 * first["seconds"]
    assert moved["moved_by"][0]["task_id"] == first["task_id"]
    assert f"moved by {first['task_id']} on {first['cluster_id']}, time x" in told["explanations"][0]["text"]
    assert [task["moved_by"] for task in told["tasks"] if task["task_id"] != first["task_id"]] == [[]] * 5
    seconds = answer(client, "predict", tasks=rows())["tasks"][0]["clusters"][0]["seconds"]
    along = {"observed": [ran | {"task_id": "elsewhere"}], "observed_tasks": [other]}
    assert answer(client, "predict", tasks=rows()[:1], **along)["tasks"][0]["clusters"][0]["seconds"] == seconds
    same = answer(client, "predict", tasks=rows()[1:2], **along)["tasks"][0]["clusters"]
    assert same != answer(client, "predict", tasks=rows()[1:2])["tasks"][0]["clusters"]


def test_graphs_sent_along_and_graphs_of_the_store_are_the_same(client):
    stored = answer(client, "predict", tasks=rows())
    sent = answer(client, "predict", tasks=rows(), nodes=rows("nodes"), edges=rows("edges"))
    for one, other in zip(stored["tasks"], sent["tasks"], strict=True):
        assert [c["seconds"] for c in one["clusters"]] == pytest.approx([c["seconds"] for c in other["clusters"]])
    # Another graph under a known name is another graph.
    bigger = [row | {"flops": 1e9} for row in rows("nodes")]
    other = answer(client, "predict", tasks=rows(), nodes=bigger, edges=rows("edges"))
    again = answer(client, "predict", tasks=rows())
    assert again == stored
    assert other["tasks"] != sent["tasks"]


TASK = {"task_id": "x"}
WRONG = {
    "no_tasks": ({"tasks": []}, "tasks"),
    "no_body": (None, "Content-Type: application/json"),
    "not_a_list": ({"tasks": "x"}, "tasks"),
    "no_name": ({"tasks": [{}]}, "tasks.0.task_id"),
    "empty_name": ({"tasks": [{"task_id": ""}]}, "tasks.0.task_id"),
    "twice": ({"tasks": [TASK, TASK]}, "task_id 'x' occurs twice"),
    "negative": ({"tasks": [TASK | {"flops": -1}]}, "tasks.0.flops"),
    "text_for_a_number": ({"tasks": [TASK | {"batch_size": "many"}]}, "tasks.0.batch_size"),
    "phase": ({"tasks": [TASK | {"phase": "sleep"}]}, "tasks.0.phase"),
    "too_many": ({"tasks": [{"task_id": str(k)} for k in range(9)]}, "tasks"),
    "many_operators": (
        {"tasks": [TASK], "nodes": [{"graph_id": "g", "node_id": k, "op": "a"} for k in range(51)]},
        "nodes",
    ),
    "unknown_key": ({"tasks": [TASK], "gama": 0.9}, "gama"),
    "gamma": ({"tasks": [TASK], "gamma": 1.5}, "gamma"),
    "cluster": ({"tasks": [TASK], "clusters": ["z"]}, "clusters: unknown 'z'"),
    "engine": ({"tasks": [TASK], "engine": "magic"}, "magic"),
    "run_of_nobody": (
        {"tasks": [TASK], "observed": [{"task_id": "y", "cluster_id": "a", "status": "succeeded", "duration_s": 1}]},
        "task 'y' is described nowhere",
    ),
    "run_elsewhere": (
        {"tasks": [TASK], "observed": [{"task_id": "x", "cluster_id": "z", "status": "succeeded", "duration_s": 1}]},
        "cluster 'z' is not known",
    ),
    "run_backwards": (
        {"tasks": [TASK], "observed": [{"task_id": "x", "cluster_id": "a", "status": "succeeded", "duration_s": -1}]},
        "observed.0.duration_s",
    ),
    "run_without_status": ({"tasks": [TASK], "observed": [{"task_id": "x", "cluster_id": "a"}]}, "observed.0.status"),
    "unknown_graph": ({"tasks": [TASK | {"graph_id": "none"}]}, "graph 'none'"),
    "cycle": (
        {
            "tasks": [TASK | {"graph_id": "g"}],
            "nodes": [{"graph_id": "g", "node_id": 0, "op": "a"}],
            "edges": [{"graph_id": "g", "src": 0, "dst": 0}],
        },
        "graph 'g' has a cycle",
    ),
    "dangling": (
        {"tasks": [TASK | {"graph_id": "g"}], "nodes": [{"graph_id": "g", "node_id": 0, "op": "a"}],
         "edges": [{"graph_id": "g", "src": 0, "dst": 7}]},
        "edges: row 0",
    ),
}  # fmt: skip


STATUS = {
    "no_body": 415,
    "twice": 409,
    "cluster": 404,
    "unknown_graph": 404,
    "cycle": 409,
    "run_of_nobody": 409,
    "run_elsewhere": 409,
    "dangling": 409,
}  # the schema cannot say it


@pytest.mark.parametrize("kind", sorted(WRONG))
def test_what_is_wrong_is_named_and_nothing_else_is_told(client, kind):
    body, named = WRONG[kind]
    response = client.post("/v1/match", json=body)
    assert response.status_code == STATUS.get(kind, 422), response.text
    assert named in response.json()["error"]
    assert "Traceback" not in response.text
    assert len(response.text) < 5000


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"tasks": [{"task_id": "x", "flops": NaN}]}', b"[" * 30_000])
def test_broken_json_is_a_clients_error(client, body):
    response = client.post("/v1/match", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= response.status_code < 500
    assert set(response.json()) <= {"error", "problems", "fields"}
    assert ready(client)


def test_booleans_are_no_numbers_and_numbers_may_have_a_point(client):
    for wrong in (True, False, "64", [64], float("inf")):
        body = json.dumps({"tasks": [TASK | {"batch_size": wrong}]}).encode()
        response = client.post("/v1/predict", content=body, headers={"Content-Type": "application/json"})
        assert response.status_code == 422, response.text
        assert "tasks.0.batch_size" in response.json()["error"]
    told = [answer(client, "predict", tasks=[TASK | {"batch_size": size}]) for size in (64, 64.0)]
    assert told[0] == told[1]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_form_of_another_site_is_no_request(client, kind):
    """A page anywhere may have a browser send these without asking."""
    body = json.dumps({"tasks": [TASK]}).encode()
    refused = client.post("/v1/predict", content=body, headers={"Content-Type": kind} if kind else {})
    assert refused.status_code == 415
    assert "application/json" in refused.json()["error"]
    for kind in ("application/json; charset=utf-8", "application/vnd.mine+json"):
        assert client.post("/v1/predict", content=body, headers={"Content-Type": kind}).status_code == 200


def test_only_names_of_this_machine_are_answered(client, releases):
    port = client.base_url.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "localhost.evil"):
        refused = client.get("/health", headers={"Host": host})
        assert refused.status_code == 421, host
        assert "not served here" in refused.json()["error"]
    for host in ("localhost", f"LOCALHOST:{port}", f"[::1]:{port}", "127.0.0.1"):
        assert client.get("/health", headers={"Host": host}).status_code == 200
    desk = Desk(Champion.of_folder(releases[0], graphs=10), ServeSettings())
    any_host = create_app(desk, ServeSettings(), hosts=frozenset("*"))
    with listening(any_host) as other:
        assert other.get("/health", headers={"Host": "mfcp.example.org"}).status_code in (200, 503)


def test_every_answer_has_the_requests_id(client, caplog):
    caplog.set_level(logging.INFO, "mfcp.serve")
    mine = client.get("/health", headers={"X-Request-ID": "night-1.7"})
    assert mine.headers["x-request-id"] == "night-1.7"
    until(lambda: any(each.getMessage().startswith("night-1.7 GET /health 200 ") for each in caplog.records))
    others = [client.get("/health", headers={"X-Request-ID": bad}) for bad in ("", "a b", "x" * 65, "<script>")]
    given = [other.headers["x-request-id"] for other in [*others, client.post("/v1/match", json={})]]
    assert len(set(given)) == len(given)
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in given)


def test_a_body_that_does_not_arrive_is_not_waited_for(releases):
    section = ServeSettings(body_s=0.5)
    with serving(Champion.of_folder(releases[0], graphs=10), section) as client:
        until(lambda: ready(client))
        with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=20) as slow:
            head = "POST /v1/match HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            begin = time.monotonic()
            assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
            assert time.monotonic() - begin < 10


def test_who_comes_too_many_is_told_before_anything_is_read(releases):
    section = ServeSettings(waiting=2, threads=1, body_s=20)
    with serving(Champion.of_folder(releases[0], graphs=10), section) as client:
        until(lambda: ready(client))
        head = b"POST /v1/match HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += b"Content-Length: 90\r\n\r\n"
        with ExitStack() as open_ones:

            def come():
                one = open_ones.enter_context(socket.create_connection(("127.0.0.1", client.base_url.port), 20))
                one.sendall(head)  # the body never comes
                return one

            def is_full():
                come()
                return client.post("/v1/predict", json={"tasks": [TASK]}).status_code == 503

            until(is_full)
            assert come().recv(100).startswith(b"HTTP/1.1 503 ")
            assert client.get("/health").status_code == 200
        until(lambda: client.post("/v1/predict", json={"tasks": [TASK]}).status_code == 200)


def test_large_requests_are_refused_whether_or_not_they_say_so(client):
    large = b" " * 60_000
    said = client.post("/v1/match", content=large)
    assert said.status_code == 413

    def pieces():
        for _ in range(60):
            yield large[:1000]

    unsaid = client.post("/v1/match", content=pieces(), headers={"Content-Type": "application/json"})
    assert unsaid.status_code == 413
    assert "send fewer" in unsaid.json()["error"]


def test_other_paths_and_methods_are_json_too(client):
    assert client.get("/nowhere").json() == {"error": "Not Found"}
    assert client.get("/v1/match").status_code == 405
    schema = client.get("/openapi.json").json()
    assert set(schema["paths"]) == {"/v1/predict", "/v1/match", "/v1/explain", "/health", "/metrics"}
    assert "batch_size" in schema["components"]["schemas"]["TasksRow"]["properties"]
    page = client.get("/docs").text
    assert "swagger" in page
    assert "https://" not in page  # it works without the internet, and nobody else's script sees a token


def test_metrics_count_requests_and_tasks(client, release):
    def metric(name):
        lines = client.get("/metrics").text.splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(name + " ")), 0.0)

    good, bad = (f'mfcp_requests_total{{path="/v1/match",status="{status}"}}' for status in (200, 422))
    before = metric(good), metric(bad), metric("mfcp_matched_tasks_total")
    answer(client, "match", tasks=rows())
    client.post("/v1/match", json={})
    client.get("/one/of/many/names")
    assert (metric(good), metric(bad)) == (before[0] + 1, before[1] + 1)
    assert metric("mfcp_matched_tasks_total") == before[2] + 6
    assert metric('mfcp_request_seconds_count{path="/v1/match"}') >= 2
    assert f'mfcp_champion{{version="{release.version}"}} 1.0' in client.get("/metrics").text
    assert "many" not in client.get("/metrics").text


def test_the_collector_looks_past_what_is_there_to_stay(releases):
    """torch, pandas and the release are many objects, and to look through them would stop a request for long."""
    gc.unfreeze()
    with serving(Champion.of_folder(releases[0], graphs=10)) as client:
        until(lambda: ready(client))
        until(lambda: gc.get_freeze_count() > 5 * len(gc.get_objects()))


def test_a_token_opens_everything_but_health(release, releases):
    with serving(Champion.of_folder(releases[0], graphs=10), token=TOKEN) as client:
        until(lambda: ready(client))
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Bearer ü"}):
            sent = {name: value.encode() for name, value in headers.items()}
            refused = client.post("/v1/predict", json={"tasks": [TASK]}, headers=sent)
            assert refused.status_code == 401
            assert "Authorization" in refused.json()["error"]
            assert client.get("/metrics", headers=sent).status_code == 401
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post("/v1/predict", json={"tasks": [TASK]}, headers=allowed).json()["version"] == release.version
        assert client.get("/metrics", headers=allowed).status_code == 200


def test_bytes_are_given_to_who_asks_first():
    async def course():
        some, order = _Bytes(10), []

        async def take(name, size, enough):
            async with some.held(size):
                order.append(name)
                await enough.wait()

        gates = {name: asyncio.Event() for name in "abcd"}
        running = []
        for name, size in (("a", 6), ("b", 6), ("c", 1), ("d", 99)):  # c would fit, but b came before
            running.append(asyncio.create_task(take(name, size, gates[name])))
            await asyncio.sleep(0)
        assert order == ["a"]
        for name, after in (("a", ["a", "b", "c"]), ("b", ["a", "b", "c"]), ("c", [*"abcd"])):
            gates[name].set()
            for _ in range(5):
                await asyncio.sleep(0)
            assert order == after
        gates["d"].set()
        await asyncio.gather(*running)
        assert some.free == 10

    asyncio.run(course())


def test_bytes_come_back_from_who_gives_up():
    async def course():
        some = _Bytes(10)
        async with some.held(10):
            waiting = asyncio.create_task(some.held(5).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with asyncio.timeout(1), some.held(10):
            pass

    asyncio.run(course())
