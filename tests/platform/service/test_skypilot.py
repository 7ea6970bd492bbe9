"""SkyPilot's admin policy, asked as SkyPilot asks it; and by SkyPilot itself, where SKYPILOT_PYTHON has it.

python3 -m venv sky && sky/bin/pip install skypilot && SKYPILOT_PYTHON=sky/bin/python pytest …
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest
import yaml
from platform_served import ready, serving, until

from mfcp.platform.service.champion import Champion
from mfcp.platform.service.skypilot import VARIABLE, cluster_of

ROW = {"model": "resnet-34", "batch_size": 64, "flops": 7.3e9, "samples": 9e5, "param_count": 2e7, "activations": 4e6}


@pytest.fixture(scope="module")
def champion(releases):
    return Champion.of_folder(releases[0], graphs=10)


@pytest.fixture(scope="module")
def client(champion):
    with serving(champion) as one:
        until(lambda: ready(one))
        yield one


def request(task, **other):
    body = {
        "task": yaml.safe_dump(task),
        "skypilot_config": "{}\n",
        "request_name": "cluster.launch",
        "user": "",
        **other,
    }
    return json.dumps(json.dumps(body))


def asked(client, task, **other):
    headers = {"Content-Type": "application/json"}
    return client.post("/v1/skypilot", content=request(task, **other), headers=headers)


def a_task(clusters, row=ROW):
    return {
        "name": "train",
        "run": "python train.py",
        "envs": {VARIABLE: json.dumps(row)} if row is not None else {},
        "resources": {"accelerators": "A100:1", "any_of": [{"infra": f"k8s/{name}"} for name in clusters]},
    }


def order(answer):
    task = yaml.safe_load(json.loads(answer.json())["task"])
    return [cluster_of(one) for one in task["resources"].get("ordered", [])], task


def test_candidates_are_in_the_order_of_what_they_cost(client, champion):
    names = list(champion.release.cluster_id)
    explained = client.post("/v1/explain", json={"tasks": [{"task_id": "train", **ROW}]}).json()
    wanted = [option["cluster_id"] for option in explained["explanations"][0]["options"]]
    found, task = order(asked(client, a_task(list(reversed(names)))))
    assert found == wanted
    assert task["resources"]["accelerators"] == "A100:1"
    assert "any_of" not in task["resources"]
    found, _ = order(asked(client, a_task(["elsewhere", *names])))
    assert found == [*wanted, "elsewhere"]  # what the release does not know comes last


@pytest.mark.parametrize("change", ["no row", "one candidate", "no resources", "ordered already"])
def test_other_requests_are_left_as_they_are(client, champion, change):
    names = list(champion.release.cluster_id)
    task = a_task(names if change != "one candidate" else names[:1], None if change == "no row" else ROW)
    if change == "no resources":
        del task["resources"]
    if change == "ordered already":
        task["resources"] = {"ordered": [{"infra": f"k8s/{name}"} for name in names]}
    answer = json.loads(asked(client, task).json())
    assert yaml.safe_load(answer["task"]) == task
    assert answer["skypilot_config"] == "{}\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "not valid JSON"),
        ('"{"', "not valid JSON"),
        ("[]", "expected a request of SkyPilot"),
        (json.dumps({"task": "a: [", "skypilot_config": ""}), "task"),
        (request(a_task(["k80", "a100"], [1])), "expected a row of table tasks"),
    ],
)
def test_what_is_no_request_is_refused_with_the_status_that_skypilot_shows(client, body, message):
    answer = client.post("/v1/skypilot", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_row_that_breaks_the_schema_is_refused(client, champion):
    answer = asked(client, a_task(list(champion.release.cluster_id), {"batch_size": "many"}))
    assert answer.status_code == 400
    assert "batch_size" in answer.json()["error"]


def test_clusters_are_named_by_label_infra_or_region():
    assert cluster_of({"infra": "k8s/a", "labels": {"mfcp-cluster": "b"}}) == "b"
    assert cluster_of({"infra": "slurm/a"}) == "a"
    assert cluster_of({"region": "us-east-1"}) == "us-east-1"
    assert cluster_of({"cpus": 4}) == cluster_of(None) == ""


PROGRAM = """
import sys
import sky
from sky import admin_policy
from sky.server.requests import request_names
task = sky.Task.from_yaml_config(__import__("yaml").safe_load(sys.stdin.read()))
request = admin_policy.UserRequest(
    task=task, skypilot_config=sky.Config(), request_name=request_names.AdminPolicyRequestName.CLUSTER_LAUNCH,
    at_client_side=True,
)
answer = admin_policy.RestfulAdminPolicy(sys.argv[1]).apply(request)
print("ORDER", [(str(one.cloud), one.region) for one in answer.task.resources], type(answer.task.resources).__name__)
"""


@pytest.mark.slow
def test_skypilot_itself_takes_the_answer(client, champion):
    """Regions of its Kubernetes are contexts; a list is what it keeps of `ordered`, a set of `any_of`."""
    python = os.environ.get("SKYPILOT_PYTHON")
    if not python:
        pytest.skip("SKYPILOT_PYTHON names no interpreter with skypilot")
    names = list(champion.release.cluster_id)
    wanted, _ = order(asked(client, a_task(names)))
    task = yaml.safe_dump(a_task(list(reversed(names))))
    url = f"{client.base_url}/v1/skypilot".replace("//v1", "/v1")
    done = subprocess.run(
        [python, "-c", PROGRAM, url], input=task, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("ORDER"))
    assert line.endswith("list")
    places = [line.index(f"'{name}'") for name in wanted]
    assert places == sorted(places)
