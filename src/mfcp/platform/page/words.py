"""Numbers and decisions in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mfcp.platform.deciding.explaining import Explanation, Option

_STATUS = {
    "optimal": "No plan is faster under the predictions.",
    "short": "It misses the asked reliability: to reach it costs more than the price of missing it, or cannot be done.",
}


def seconds(value: float | None) -> str:
    """A time as a person reads it: three digits, from two minutes on in minutes, from two hours on in hours."""
    if value is None or value != value:
        return "unknown"
    size = abs(value)
    if size < 120:
        return f"{value:.3g} s"
    sign = "-" if value < 0 else ""
    if size < 7200:
        minutes, rest = divmod(round(size), 60)
        return f"{sign}{minutes} min {rest} s"
    hours, minutes = divmod(round(size / 60), 60)
    return f"{sign}{hours:,} h {minutes} min"


def share(value: float | None) -> str:
    """A part of one in per cent."""
    return "unknown" if value is None or value != value else f"{100 * value:.1f} %"


def when(at: float | None) -> str:
    """A time in UTC."""
    return "never" if at is None or at != at else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def count(number: int, noun: str) -> str:
    """3 tasks, 1 task."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plan(status: str, makespan: float, gap: float, reliability: float | None, gamma: float | None) -> str:
    """What a plan promises, in two or three sentences."""
    told = [f"The last cluster is predicted to be done after {seconds(makespan)}."]
    if status == "feasible":
        told.append(f"No plan can be more than {share(gap / (1 + gap))} faster under the predictions.")
    else:
        told.append(_STATUS.get(status, ""))
    if reliability is None or gamma is None or reliability != reliability or gamma != gamma:
        told.append("Nothing is known of reliability.")
    else:
        told.append(f"{share(reliability)} of the tasks are predicted to succeed, where {share(gamma)} are asked for.")
    return " ".join(sentence for sentence in told if sentence)


def change(before: float, after: float) -> str:
    """How a time has changed."""
    if before <= 0 or abs(after - before) < 5e-4 * before:
        return "no change"
    way = "longer" if after > before else "shorter"
    return f"{seconds(abs(after - before))} ({share(abs(after / before - 1))}) {way}"


def why(told: Explanation) -> list[str]:
    """Why a task is where it is, a sentence each."""
    chosen = next(option for option in told.options if option.chosen)
    others = [one for one in told.options if not one.chosen and one.online and one.cost_change is not None]
    lines = [f"{told.task_id} goes to {told.cluster_id}, where it is predicted to take {_expected(chosen)}."]
    if not others:
        return [*lines, "No other cluster that is online may run it."]
    best = others[0]
    faster = [option for option in others if _less(option.seconds, chosen.seconds)]
    quickest = min(faster, key=lambda option: option.seconds or 0.0, default=None)
    if quickest is None:
        lines.append(f"It is the fastest of the {count(len(others) + 1, 'cluster')} that may run it.")
    elif quickest is not best:
        lines.append(f"{quickest.cluster_id} would run it in {seconds(quickest.seconds)}, but {_effect(quickest)}.")
    lines.append(f"The next best is {best.cluster_id}: there it would take {_expected(best)}, and {_effect(best)}.")
    if best.cost_change is not None and best.cost_change < 0:
        return [*lines, "By the cost that plans are judged by, that move would pay as it is."]
    ways = []
    if best.time_factor is not None:
        ways.append(f"it took less than {share(best.time_factor)} of its predicted time there")
    if best.reliability_needed is not None:
        ways.append(f"it succeeded there with a probability above {share(best.reliability_needed)}")
    lines.append(f"That would pay if {' or if '.join(ways)}." if ways else "That would not pay at any speed.")
    return lines


def run(attempts: Sequence[Mapping[str, Any]]) -> str:
    """How a task stands by its attempts on real clusters: the one that succeeded, else the last."""
    if not attempts:
        return "not yet"
    done = [one for one in attempts if one["status"] == "succeeded"]
    shown = done[0] if done else attempts[-1]  # one that is done may run once more, to compare releases
    if shown["state"] == "over":
        told = str(shown["status"]).replace("_", " ")
    else:
        told = {"planned": "waits to be handed in", "handed": "waits in the queue"}.get(shown["state"], "runs")
    return told if len(attempts) == 1 else f"{told} on {shown['cluster_id']}, attempt {shown['number']}"


def _less(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one < other


def _expected(option: Option) -> str:
    text = f"{seconds(option.seconds)} ({seconds(option.seconds_low)} to {seconds(option.seconds_high)})"
    return text if option.reliability is None else f"{text} and to succeed with probability {share(option.reliability)}"


def _effect(option: Option) -> str:
    late = option.makespan_change or 0.0
    text = "the round would end at the same time"
    if abs(late) >= 0.05:
        text = f"the round would end {seconds(abs(late))} {'later' if late > 0 else 'earlier'}"
    change = option.reliability_change
    if change is None or abs(change) < 5e-5:
        return text
    return f"{text}, with {100 * abs(change):.2f} % {'more' if change > 0 else 'fewer'} successes"
