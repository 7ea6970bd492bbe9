"""Promotion: the better release wins, a worse or equal one does not, and little evidence is not enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from platform_log import small_log

from mfcp.data.log.tables import Tables
from mfcp.data.pool.logged import logged_pool
from mfcp.data.pool.task_pool import TaskPool
from mfcp.platform.releases.models import Models
from mfcp.platform.releases.promotion import PromoteSettings, interval, judge, promotion
from mfcp.platform.state.store import Store
from mfcp.release.model import Release

SETTINGS = PromoteSettings(rounds=60, tasks=5, resamples=400)

pytestmark = pytest.mark.xdist_group("promotion")  # one worker makes what they share


@pytest.fixture(scope="module")
def log() -> Tables:
    """The log that the releases learned from, and forty tasks more."""
    old, new = small_log(), small_log(40, seed=5, start=500)
    parts = {name: pd.concat([old[name], new[name]], ignore_index=True) for name in ("tasks", "runs")}
    return {**old, **parts}


@pytest.fixture(scope="module")
def pool(log: Tables) -> TaskPool:
    return logged_pool(log)


def test_the_better_release_replaces_the_worse_and_not_the_other_way_round(
    good: Path, bad: Path, pool: TaskPool, log: Tables
) -> None:
    better, worse = Release.load(good), Release.load(bad)
    verdict = judge(worse, better, pool, log, SETTINGS)
    assert verdict.promote
    assert verdict.why.startswith("better: penalised excess 0.0")
    numbers = verdict.numbers
    assert numbers["low"] < numbers["difference"] < numbers["high"] < 0
    assert numbers["difference"] == pytest.approx(numbers["challenger"] - numbers["champion"])
    assert numbers["tasks"] == 40 + round(0.15 * 90)
    assert judge(worse, better, pool, log, SETTINGS) == verdict  # drawn with a seed made of the versions
    back = judge(better, worse, pool, log, SETTINGS)
    assert not back.promote
    assert back.why.startswith("not significantly better")
    assert back.numbers["low"] > 0


def test_rounds_are_short_of_the_gamma_that_the_platform_asks_for(
    good: Path, bad: Path, pool: TaskPool, log: Tables
) -> None:
    worse, better = Release.load(bad), Release.load(good)
    of = {gamma: judge(worse, better, pool, log, SETTINGS, gamma).numbers for gamma in (None, worse.gamma, 0.0, 0.999)}
    assert of[None] == of[worse.gamma]
    for who in ("champion_violations", "challenger_violations"):
        assert of[0.0][who] == 0.0 < of[None][who] < of[0.999][who]


def test_an_equal_release_is_not_promoted(good: Path, pool: TaskPool, log: Tables) -> None:
    champion = Release.load(good)
    twin = replace(champion, version="f" * 12)
    verdict = judge(champion, twin, pool, log, SETTINGS)
    assert not verdict.promote
    assert verdict.numbers["difference"] == 0.0
    assert judge(champion, twin, pool, log, SETTINGS.model_copy(update={"tolerance": 0.01})).promote is False


def test_gamma_broken_more_often_is_guarded_whatever_the_cost(
    good: Path, bad: Path, pool: TaskPool, log: Tables
) -> None:
    """A champion that is slow and safe by chance, and a challenger that is quick where runs fail."""
    slow = replace(Release.load(bad), gamma=0.8, price=0.0)
    fastest = np.nanmin(pool.T, axis=0) == pool.T
    risky = replace(pool, A=np.where(fastest, 0.5, 1.0))
    verdict = judge(slow, Release.load(good), risky, log, SETTINGS)
    assert verdict.numbers["high"] < 0
    assert verdict.numbers["challenger_violations"] > verdict.numbers["champion_violations"] + 0.02
    assert not verdict.promote
    assert verdict.why.startswith("breaks gamma more often")
    assert judge(slow, Release.load(good), risky, log, SETTINGS.model_copy(update={"violation_guard": 1.0})).promote


def test_nothing_is_judged_on_tasks_that_a_release_learned_from(good: Path, pool: TaskPool, log: Tables) -> None:
    champion = Release.load(good)
    greedy = replace(champion, version="f" * 12, learned_from=frozenset(f"task{500 + j}" for j in range(30)))
    verdict = judge(champion, greedy, pool, log, SETTINGS)
    assert not verdict.promote
    assert verdict.why.startswith("24 test tasks with times on two of the 3 shared clusters")
    assert verdict.numbers == {}
    elsewhere = replace(greedy, learned_from=frozenset(), cluster_id=("a", "x", "y"))
    assert judge(champion, elsewhere, pool, log, SETTINGS).why.startswith("0 test tasks")


def test_the_interval_knows_that_rounds_share_their_tasks() -> None:
    """The mean over rounds of tasks' values has the deviation of a mean of n tasks, however many rounds there are."""
    rng = np.random.default_rng(0)
    n, covered, widths = 40, 0, []
    for _ in range(200):
        values = rng.normal(size=n)
        rounds = rng.random((300, n)).argsort(axis=1)[:, :8]
        low, high = interval(values[rounds].mean(axis=1), rounds, np.arange(n).astype(str), 400, rng)
        covered += low <= 0.0 <= high
        widths.append(high - low)
    assert 0.90 * 200 <= covered <= 0.99 * 200
    assert np.mean(widths) == pytest.approx(2 * 1.96 / np.sqrt(n), rel=0.15)


def test_tasks_of_one_name_are_drawn_together() -> None:
    rng = np.random.default_rng(1)
    values = np.repeat(rng.normal(size=20), 10)
    rounds = rng.random((400, 200)).argsort(axis=1)[:, :8]
    each = values[rounds].mean(axis=1)
    apart, together = (
        np.diff(interval(each, rounds, names.astype(str), 1000, np.random.default_rng(2)))[0]
        for names in (np.arange(200), np.arange(200) // 10)
    )
    assert together > 2 * apart


def test_a_platform_promotes_and_keeps_the_numbers(
    home: Path, store: Store, good: Path, bad: Path, log: Tables
) -> None:
    models = Models(home, store)
    assert promotion(models, lambda: log, SETTINGS).why == "no champion"
    first = models.add(bad, {})
    assert promotion(models, lambda: log, SETTINGS).why == "no challenger"
    second = models.add(good, {})
    verdict = promotion(models, lambda: log, SETTINGS)
    assert verdict.promote
    assert models.current() == second
    assert store.champions()["why"][1] == verdict.why
    notes = store.undelivered()
    verdicts = [c for name, c in zip(notes["name"], notes["content"], strict=True) if name == "verdict"]
    assert [(v["champion"], v["challenger"], v["promote"]) for v in verdicts] == [(first, second, True)]
    assert dict(zip(notes["name"], notes["value"], strict=True))["promotion.difference"] == pytest.approx(
        verdict.numbers["difference"]
    )
    assert models.rollback("by hand") == first
    assert promotion(models, lambda: log, SETTINGS).why == "no challenger"
