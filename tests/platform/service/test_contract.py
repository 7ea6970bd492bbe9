"""The service holds its own contract: schemathesis tries everything that its OpenAPI document allows and forbids."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from platform_log import small_log, small_release, small_settings
from platform_served import LOG, ready, serving, until

from mfcp.platform.service.champion import Champion
from mfcp.platform.service.contract import ANSWERS, ErrorAnswer
from mfcp.platform.service.protocol import ServeSettings
from mfcp.release.fitting import fit_release

pytestmark = pytest.mark.xdist_group("contract")
EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "60"))  # of each operation and phase; `make fuzz`: 360


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "release"
    small_release(folder, LOG)
    with serving(Champion.of_folder(folder, graphs=100), ServeSettings(tasks=8, operators=50)) as client:
        until(lambda: ready(client))
        until(lambda: client.get("/openapi.json").status_code == 200)
        yield client


@pytest.mark.slow
def test_the_contract_holds_in_hundreds_of_cases(client, tmp_path: Path) -> None:
    """All checks of schemathesis on generated requests, good and bad; in thousands by `make fuzz`."""
    program = Path(sys.executable).with_name("schemathesis")
    command = [program, "run", f"{client.base_url}/openapi.json", "--checks", "all", "--no-color", "--seed", "1"]
    # Who is the first on a machine to ask for an engine may wait until it is compiled.
    done = subprocess.run(
        [*map(str, command), "--max-examples", str(EXAMPLES), "--request-timeout", "100",
         "--max-response-time", "100"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
        env=os.environ | {"NO_PROXY": "127.0.0.1", "SCHEMATHESIS_COVERAGE": "false"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    counted = re.search(r"(\d+) generated, \1 passed", done.stdout)
    assert counted, done.stdout[-2000:]
    assert int(counted[1]) >= 5 * EXAMPLES


def test_every_operation_has_an_example_that_it_answers(client) -> None:
    paths = client.get("/openapi.json").json()
    posts = {path: entry["post"] for path, entry in paths["paths"].items() if "post" in entry}
    assert {path.rpartition("/")[2] for path in posts} == set(ANSWERS)
    for path, entry in posts.items():
        name = entry["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        (example,) = paths["components"]["schemas"][name]["examples"]
        answer = client.post(path, json=example)
        assert answer.status_code == 200, answer.text
        ANSWERS[path.rpartition("/")[2]].model_validate(answer.json())
        assert {"200", "400", "404", "409", "413", "422", "500", "503"} <= set(entry["responses"])


def test_answers_without_reliability_are_in_the_contract(tmp_path: Path) -> None:
    log = small_log(12)
    log["runs"]["status"] = "succeeded"
    fit_release(log, small_settings(), tmp_path / "release", data={"name": "mine"})
    with serving(Champion.of_folder(tmp_path / "release", graphs=10)) as client:
        until(lambda: ready(client))
        for name, model in ANSWERS.items():
            told = client.post(f"/v1/{name}", json={"tasks": [{"task_id": "new", "flops": 1e9}]}).json()
            model.model_validate(told)
            assert any("gamma is not applied" in text for text in told["not_measured"])
            assert told["log"]["name"] == "mine"
    assert ErrorAnswer(error="x").problems is None
