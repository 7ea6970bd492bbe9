"""The champion of the moment answers; a damaged one is refused."""

import pytest
from platform_served import answer, ready, serving, until

from mfcp.platform.releases.models import Models
from mfcp.platform.service.champion import Champion
from mfcp.platform.state.store import Store

pytestmark = pytest.mark.xdist_group("api")  # one worker makes what they share


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
