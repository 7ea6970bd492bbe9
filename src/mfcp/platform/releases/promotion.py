"""Champion against challenger on labelled tasks that neither has seen; promoted only with 95 % confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Floats, Ints
from mfcp.data.log.tables import Tables
from mfcp.data.pool.logged import logged_pool
from mfcp.data.pool.task_pool import TaskPool
from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.matching.problem import MatchingProblem
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Note
from mfcp.release.model import Release
from mfcp.study.setting import gather

_ENGINE = "search"  # milliseconds a round; a few of hundreds are not proven optimal, for both releases alike


class PromoteSettings(BaseModel):
    """On what champion and challenger are compared, and what the challenger must show."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(10, ge=1, description="tasks of a round")
    rounds: int = Field(400, ge=20, description="rounds drawn from the test tasks")
    least_tasks: int = Field(30, ge=2, description="test tasks without which nothing is promoted")
    tolerance: float = Field(0.0, ge=0, description="excess cost that the interval's upper end stays below")
    violation_guard: float = Field(
        0.02, ge=0, description="share of rounds that may be below gamma beyond the champion's; more, if sure, refuses"
    )
    resamples: int = Field(2000, ge=100, description="of the paired interval")


@dataclass(frozen=True)
class Verdict:
    """Whether a challenger replaces the champion.

    Attributes:
        promote: it does.
        why: in one sentence, with the numbers.
        numbers: `champion` and `challenger` (mean penalised excess), `difference` with `low` and `high` (95 %),
            `champion_violations` and `challenger_violations` (shares of rounds) with `violations_low` and
            `violations_high` of what the challenger has more (95 %), `tasks`, `rounds`; empty without test.
    """

    promote: bool
    why: str
    numbers: dict[str, float] = field(default_factory=dict)


def promotion(
    models: Models, log: Callable[[], Tables], settings: PromoteSettings, gamma: float | None = None
) -> Verdict:
    """Judge the challenger, if there is one, promote it if it is better, and keep the numbers for the tracking store.

    Args:
        models: of the platform.
        log: reads the newest validated log; called if there is something to judge.
        settings: see `PromoteSettings`.
        gamma: see `judge`.
    """
    champion, challenger = models.champion(), models.challenger()
    if champion is None or challenger is None:
        return Verdict(False, "no champion" if champion is None else "no challenger")
    tables = log()
    verdict = judge(champion, challenger, logged_pool(tables), tables, settings, gamma)
    if verdict.promote:
        models.promote(challenger.version, verdict.why)
    content = {"champion": champion.version, "challenger": challenger.version, "promote": verdict.promote}
    event = Note("verdict", kind="event", content={**content, "why": verdict.why})
    models.store.post([event, *(Note(f"promotion.{name}", value) for name, value in verdict.numbers.items())])
    return verdict


def judge(
    champion: Release,
    challenger: Release,
    pool: TaskPool,
    tables: Tables,
    settings: PromoteSettings,
    gamma: float | None = None,
) -> Verdict:
    """Both plan the same rounds; what counts is the penalised excess under the labels, round by round.

    Test tasks have a known time on at least two clusters that both releases know, and neither release has learned
    from them. The price is the champion's for both.

    Args:
        champion, challenger: what is compared; the rounds are drawn with a seed made of both versions.
        pool: labels of the newest log.
        tables: that log: features of the tasks, and their graphs.
        settings: see `PromoteSettings`.
        gamma: least mean reliability of the platform's rounds; None for the champion's, as where none fails.
    """
    gamma = champion.gamma if gamma is None or not champion.reliability_known else gamma
    shared = [c for c in champion.cluster_id if c in challenger.cluster_id and c in pool.cluster_id]
    labelled = pool.select(clusters=[list(pool.cluster_id).index(c) for c in shared])
    seen = champion.learned_from | challenger.learned_from
    unseen = np.array([task not in seen for task in labelled.source_task], bool)
    labelled = labelled.select(tasks=unseen & (labelled.allowed.sum(axis=0) >= 2))
    fresh = len(set(labelled.source_task))
    least_tasks = max(settings.least_tasks, 2 * settings.tasks)
    if fresh < least_tasks:
        return Verdict(
            False,
            f"{fresh} test tasks with times on two of the {len(shared)} shared clusters that neither release has "
            f"learned from; at least {least_tasks} are needed",
        )
    seed = [int(release.version, 16) for release in (champion, challenger)]
    rng = np.random.default_rng(seed)
    rounds = rng.random((settings.rounds, len(labelled.task_id))).argsort(axis=1)[:, : settings.tasks]
    T, A, allowed = (gather(values, rounds[None]) for values in (labelled.T, labelled.A, labelled.allowed))
    truth = MatchingProblem(T, A, gamma, allowed)
    reference = Reference.solved(rounds, truth, price=champion.price, engine=_ENGINE)
    level = (gamma, champion.price)
    plans = [_plan(release, tables, labelled, shared, rounds, *level) for release in (champion, challenger)]
    metrics = [round_metrics(plan, reference, price=champion.price) for plan in plans]
    excess, short = ([values[name] for values in metrics] for name in ("penalised_excess", "violation_rate"))
    difference = excess[1] - excess[0]
    low, high = interval(difference, rounds, labelled.source_task, settings.resamples, rng)
    more = short[1] - short[0]
    least_more, most_more = interval(more, rounds, labelled.source_task, settings.resamples, rng)
    numbers = {
        "champion": excess[0].mean(), "challenger": excess[1].mean(),
        "difference": difference.mean(), "low": low, "high": high,
        "champion_violations": short[0].mean(), "challenger_violations": short[1].mean(),
        "violations_low": least_more, "violations_high": most_more,
        "tasks": fresh, "rounds": settings.rounds,
    }  # fmt: skip
    return _verdict({name: float(value) for name, value in numbers.items()}, settings)


def _verdict(numbers: dict[str, float], settings: PromoteSettings) -> Verdict:
    more = numbers["challenger_violations"] - numbers["champion_violations"]
    better = numbers["difference"] < 0 and numbers["high"] < settings.tolerance
    # What is missing in those rounds is in the excess; a few rounds more or less below gamma are chance.
    guarded = more <= settings.violation_guard or numbers["violations_low"] <= 0
    text = (
        f"penalised excess {numbers['challenger']:.4f} against the champion's {numbers['champion']:.4f}, difference "
        f"{numbers['difference']:+.4f} [{numbers['low']:+.4f}, {numbers['high']:+.4f}] on {numbers['tasks']:.0f} "
        f"tasks; rounds below gamma {numbers['challenger_violations']:.1%} against "
        f"{numbers['champion_violations']:.1%}, difference [{numbers['violations_low']:+.1%}, "
        f"{numbers['violations_high']:+.1%}]"
    )
    reason = "better" if better and guarded else "breaks gamma more often" if better else "not significantly better"
    return Verdict(better and guarded, f"{reason}: {text}", numbers)


def interval(values: Floats, rounds: Ints, task: Any, count: int, rng: np.random.Generator) -> tuple[float, float]:
    """Ends of the 95 % interval of the mean of a round's value, when tasks are what is drawn.

    Rounds share tasks, so drawing rounds again would make much of little: with 30 tasks, 400 rounds know no more than
    30 tasks do. The mean over rounds of N tasks is a U-statistic; a task's influence on it is N times what the rounds
    with it lie above the mean (its Hájek projection), times (n - 1) / (n - N), since a round draws without replacement;
    tasks are resampled by these.

    Args:
        values: (R,) of each round.
        rounds: (R, N) its tasks, N < n.
        task: (n,) name of each task; those of one name are drawn together.
        count: resamples.
        rng: what is drawn from.
    """
    _, group = np.unique(task, return_inverse=True)
    groups = int(group.max()) + 1
    members = np.zeros((len(values), groups))
    np.add.at(members, (np.arange(len(values))[:, None], group[rounds]), 1.0)
    above = values - values.mean()
    n, N = len(group), rounds.shape[1]
    influence = groups * (above @ members) / len(values) * (n - 1) / (n - N)  # 0 for a task that no round holds
    influence -= influence.mean()
    drawn = influence[rng.integers(groups, size=(count, groups))].mean(axis=1)
    low, high = np.quantile(values.mean() + drawn, [0.025, 0.975])
    return float(low), float(high)


def _plan(
    release: Release, tables: Tables, pool: TaskPool, clusters: list[str], rounds: Ints, gamma: float, price: float
) -> Ints:
    """(R, N) plans of a release for rounds of the pool's tasks, over pairs that the log knows."""
    tasks = tables["tasks"].set_index("task_id", drop=False).loc[list(pool.source_task)]
    belief = release.predict({**tables, "tasks": tasks.assign(task_id=pool.task_id, samples=pool.samples)})
    shared = belief.on([release.cluster_id.index(cluster) for cluster in clusters])
    in_rounds = shared.in_rounds(rounds, gamma=gamma, allowed=pool.allowed)
    return release.trained.method.rule.plan(in_rounds, parameter=float(release.trained.parameter[0]), price=price)
