"""The board shows what the platform has decided, and decides under wishes as the platform would."""

import numpy as np
import pandas as pd
import pytest
import yaml
from platform_log import CLUSTERS, small_log

from mfcp.data.log.tables import write_tables
from mfcp.errors import DataError, SettingsError, UnknownNameError
from mfcp.platform.deciding.rounds import MatchSettings, match_round
from mfcp.platform.page.board import Board, Wish, still_busy
from mfcp.platform.releases.models import Models
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store
from mfcp.release.decision import decide

pytestmark = pytest.mark.xdist_group("page")  # one worker makes what they share


def test_without_a_wish_it_is_what_the_next_round_would_be(board, store):
    trial = board.try_out(Wish("pending"))
    own = decide(board.release, store.pending())
    assert trial.moved == ()
    assert trial.now.cluster_id == trial.then.cluster_id == own.cluster_id
    assert trial.after.makespan == pytest.approx(own.makespan)
    assert trial.before.makespan == pytest.approx(own.makespan)


def test_a_round_s_tasks_can_be_tried_again_as_they_were_decided(board, store):
    again = board.decide(Wish("2", gamma=0.9))
    rows = store.assignments(round_id=2)
    assert list(again.cluster_id) == list(rows["cluster_id"])
    assert list(again.task_id) == list(rows["task_id"])


def platform(home, folder, match):
    """A platform of the same release with tasks that wait, settings of its rounds, and a busy real cluster."""
    (folder / "repo").mkdir(parents=True)
    (folder / "repo" / "params.yaml").write_text(yaml.safe_dump({"platform": {"match": match}}))
    store = Store(f"sqlite:///{folder}/platform.db")
    models = Models(folder, store)
    models.add(home / "one", {})
    tables = small_log(15, seed=1200, start=1200)
    store.submit({name: tables[name] for name in ("tasks", "nodes", "edges")})
    Attempts(store).report("a", up=True, why="", backlog_s=500.0)
    return store, models


def test_it_knows_what_a_round_would_know(home, tmp_path):
    """Settings of rounds, and how busy clusters are: what is shown for the next round is what that round decides."""
    match = {"gamma": 0.5, "tasks": 8, "engine": "exact"}
    store, models = platform(home, tmp_path, match)
    board = Board.of_platform(tmp_path, store)
    idle = board.decide(Wish("pending", backlog={}))  # and what is compiled at first is
    shown = board.try_out(Wish("pending")).now
    assert shown.rule == "exact"
    assert board.sources() == {"pending": "the 8 tasks of the next round"}
    assert sum(name == "a" for name in shown.cluster_id) < sum(name == "a" for name in idle.cluster_id)
    match_round(store, models, MatchSettings(**match))
    decided = store.assignments(round_id=1).set_index("task_id")["cluster_id"]
    assert dict(zip(shown.task_id, shown.cluster_id, strict=True)) == decided.to_dict()
    assert shown.gamma == store.rounds()["gamma"].iloc[0] == 0.5
    assert shown.makespan == pytest.approx(store.rounds()["makespan"].iloc[0])

    (tmp_path / "repo" / "params.yaml").write_text(yaml.safe_dump({"platform": {"match": match | {"gamma": 0.6}}}))
    assert board.completed(Wish("pending")).gamma == 0.6
    Attempts(store).report("a", up=True, why="", backlog_s=0.0)
    again = board.try_out(Wish("1"))  # as busy as it was then
    assert again.then.makespan == pytest.approx(shown.makespan)
    assert next(lane for lane in again.before.lanes if lane.cluster_id == "a").wait > 0
    assert board.completed(Wish("pending")).backlog == {}


@pytest.mark.parametrize("observes", [True, False])
def test_runs_count_where_they_count_in_rounds(home, tmp_path, observes):
    store, _ = platform(home, tmp_path, {"observes": observes})
    ran = small_log(15, seed=1200, start=1200, runs=2)
    slow = ran["runs"].assign(duration_s=ran["runs"]["duration_s"] * 3)
    write_tables({**ran, "runs": slow}, tmp_path / "repo" / "data" / "log")
    board = Board.of_platform(tmp_path, store)
    board.refresh()
    usual = decide(board.release, store.pending(), backlog=store.backlogs()).makespan
    assert (board.decide(Wish("pending")).makespan > 1.2 * usual) == observes


def test_who_moves_is_the_difference_of_the_plans(board):
    trial = board.try_out(Wish("pending", off=frozenset("a"), backlog={"b": 50.0}))
    before = dict(zip(trial.now.task_id, trial.now.cluster_id, strict=True))
    after = dict(zip(trial.then.task_id, trial.then.cluster_id, strict=True))
    assert {row[0] for row in trial.moved} == {task for task in before if before[task] != after[task]}
    assert {row[0] for row in trial.moved} >= {task for task, cluster in before.items() if cluster == "a"}
    assert "a" not in after.values()
    assert trial.before.span == trial.after.span
    lane = next(lane for lane in trial.after.lanes if lane.cluster_id == "b")
    assert lane.wait == pytest.approx(100 * 50.0 / trial.after.span)
    assert max(lane.seconds for lane in trial.after.lanes) == pytest.approx(trial.then.makespan)


def test_gamma_and_price_are_the_wish_s(board):
    decision = board.decide(Wish("pending", gamma=0.99, price=50.0))
    assert (decision.gamma, decision.price) == (0.99, 50.0)
    assert decision.mean_reliability >= board.decide(Wish("pending", gamma=0.99, price=0.0)).mean_reliability


@pytest.mark.parametrize(
    ("wish", "error", "told"),
    [
        (Wish("pending", gamma=1.5), SettingsError, "gamma: expected"),
        (Wish("pending", price=-1.0), SettingsError, "price: expected"),
        (Wish("pending", off=frozenset(CLUSTERS)), DataError, "no cluster is left"),
        (Wish("99"), UnknownNameError, "tasks '99': there are none; choose one of pending, 2, 1"),
        (Wish("given"), UnknownNameError, "tasks 'given'"),
        (Wish("²"), UnknownNameError, "there are none"),
    ],
)
def test_wishes_that_cannot_be(board, wish, error, told):
    with pytest.raises(error, match=told):
        board.try_out(wish)


def test_what_is_offline_stays_so(board, store):
    store.set_online({"c": False})
    try:
        board._looked = float("-inf")
        assert "c" not in board.try_out(Wish("pending")).now.cluster_id
        assert [one["online"] for one in board.clusters()] == [True, True, False]
    finally:
        store.set_online({"c": True})
        board._looked = float("-inf")
        board.refresh()


def test_a_past_round_is_explained_by_the_release_that_decided_it(board, store, home):
    rows = store.assignments(round_id=2)
    version = store.rounds(round_id=2)["version"][0]
    told = board.explained_then(2, str(rows["task_id"][4]))
    assert told.cluster_id == rows["cluster_id"][4]
    chosen = next(option for option in told.options if option.chosen)
    assert chosen.seconds == pytest.approx(rows["seconds"][4])
    other = next(v for v in store.models()["version"] if v != version)
    board.models.promote(other, "for a moment")
    try:
        board._looked = float("-inf")
        assert board.release.version == other
        assert board.explained_then(2, str(rows["task_id"][4])) == told
    finally:
        board.models.rollback("it was a moment")
        board._looked = float("-inf")
        board.refresh()
    with pytest.raises(UnknownNameError, match="no task 'nobody'"):
        board.explained_then(2, "nobody")
    with pytest.raises(UnknownNameError, match="round 77"):
        board.explained_then(77, "nobody")


def test_clusters_tell_busy_time_error_and_alarms(board):
    a, b, c = board.clusters()
    assert (a["rms"], b["rms"], a["alarms"], b["alarms"]) == (0.2, None, [], ["time"])
    assert min(one["busy"] for one in (a, b, c)) > 0  # two rounds of some minutes were given out a moment ago


def test_busy_time_is_that_of_a_queue():
    """Against a clock that ticks: each second a cluster that has work left does one of it."""
    rng = np.random.default_rng(0)
    rounds = pd.DataFrame({"round_id": range(1, 7), "matched_at": np.cumsum(rng.integers(1, 30, 6)).astype(float)})
    loads = pd.DataFrame(
        [(r, c, float(rng.integers(1, 40))) for r in rounds["round_id"] for c in "ab"],
        columns=["round_id", "cluster_id", "seconds"],
    )
    left = {"a": 0.0, "b": 0.0}
    for now in range(int(rounds["matched_at"].max()) + 10):
        left = {name: max(0.0, value - 1.0) for name, value in left.items()}
        for row in rounds[rounds["matched_at"] == now].itertuples():
            for load in loads[loads["round_id"] == row.round_id].itertuples():
                left[load.cluster_id] += load.seconds
        come = rounds[rounds["matched_at"] <= now]
        told = still_busy(come, loads[loads["round_id"].isin(come["round_id"])], float(now))
        assert {name: told.get(name, 0.0) for name in left} == pytest.approx(left)


def test_a_release_alone_is_tried_on_tasks_given(home, store):
    tables = store.pending()
    board = Board.of_release(home / "one", tables)
    assert board.sources() == {"given": "the 15 tasks given"}
    assert board.try_out(Wish("given")).then.cluster_id == decide(board.release, tables).cluster_id
    assert board.clusters() == []
    with pytest.raises(UnknownNameError, match="round 1"):
        board.round(1)


def test_a_past_round_is_explained_with_the_runs_that_it_saw(home, tmp_path):
    """Runs that ended later change the next plan, and not the reasons of the last."""
    store = Store(f"sqlite:///{tmp_path}/platform.db")
    models = Models(tmp_path, store)
    models.add(home / "one", {})
    log = tmp_path / "repo" / "data" / "log"
    ran = small_log(12, seed=5, start=3000, runs=2)
    early = ran["runs"].iloc[::2].reset_index(drop=True)
    write_tables({**ran, "runs": early}, log)
    names = [f"t{j}" for j in range(12)]
    again = {"tasks": ran["tasks"].assign(task_id=names), "nodes": ran["nodes"], "edges": ran["edges"]}
    store.submit(again)
    match_round(store, models, MatchSettings(), log)
    board = Board.of_platform(tmp_path, store)
    board.refresh()
    before = board.explained_then(1, "t3")
    planned = store.assignments(round_id=1).set_index("task_id")["seconds"]["t3"]
    assert next(o.seconds for o in before.options if o.chosen) == pytest.approx(planned)
    tried = board.decide(Wish("1"))
    slow = ran["runs"].assign(duration_s=ran["runs"]["duration_s"] * 3, run_id=ran["runs"]["run_id"] + "-late")
    write_tables({**ran, "runs": pd.concat([early, slow], ignore_index=True)}, log)
    assert board.explained_then(1, "t3") == before
    other = Board.of_platform(tmp_path, store)
    other.refresh()
    assert other.decide(Wish("1")).makespan == pytest.approx(tried.makespan)
    store.submit({**again, "tasks": again["tasks"].assign(task_id=[f"u{j}" for j in range(12)])})
    assert other.decide(Wish("pending")).makespan > 1.2 * tried.makespan
