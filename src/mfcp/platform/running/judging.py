"""What is to be done about an attempt, from what is known of it: one function of facts, without state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mfcp.executors.base import Account, JobSeen, Status
from mfcp.executors.out_of_memory import tells_memory
from mfcp.executors.supervise import LEASE_S

AGAIN_S = 2.0  # before somebody who was told to end is told so again


@dataclass(frozen=True)
class Facts:
    """What is known of an attempt.

    Attributes:
        seen: on its cluster, now.
        unknown_s: seconds for which its scheduler has not known it.
        fenced_s: seconds since it was told to end and not to start; None where it was not.
        cancelled: its task is to end.
        told: why it was told so, where that is known.
        limit_s: seconds that it may take.
        outlives, lease_s: see `Executor`.
        books_s: seconds that accounting gets to tell of it.
    """

    seen: JobSeen
    unknown_s: float = 0.0
    fenced_s: float | None = None
    cancelled: bool = False
    told: str = ""
    limit_s: float = float("inf")
    outlives: float = 12.0
    lease_s: float = LEASE_S
    books_s: float = 60.0


@dataclass(frozen=True)
class Judgement:
    """What to do.

    Attributes:
        act: leave it alone; let it start; see that it does not start and ends; ask accounting how it ended; over.
        status: of one that is over.
        why: of one that is over, empty for success; of one that is fenced, where there is a reason to tell.
        wall_s: that it ran; None where that is not known, or it did not start.
    """

    act: Literal["wait", "release", "fence", "ask", "over"]
    status: Status = "lost"
    why: str = ""
    wall_s: float | None = None


def judge(facts: Facts, account: Account | None = None, *, asked: bool = False) -> Judgement:
    """What to do about an attempt.

    Receipts stand above what the scheduler and its books say: they are written by who was there. An attempt is over
    once it has left one, was claimed by the platform before it began, or has given no sign of life for longer than its
    supervisor would let it run without one.

    Args:
        facts: what is known.
        account: what accounting says of it.
        asked: whether accounting was asked.
    """
    seen = facts.seen
    if seen.end is not None:
        return _received(facts, seen.end, account, asked=asked)
    if seen.begin is not None and seen.begin.get("fenced"):
        if seen.stage in ("held", "waiting"):  # its cluster was not reached when it was to be taken out of the queue
            return Judgement("fence")
        why = "cancelled before it began" if facts.cancelled else facts.told or "never began"
        status: Status = "cancelled" if facts.cancelled else "lost"
        return Judgement("over", status, why)
    lives = seen.stage in ("held", "waiting", "running")
    # Again while it lives: what was to end it may not have arrived.
    if facts.cancelled and (facts.fenced_s is None or (lives and facts.fenced_s > AGAIN_S)):
        return Judgement("fence")
    if seen.begin is None:
        if lives and facts.fenced_s is not None:  # given up: what was to end it may not have arrived
            return Judgement("fence" if facts.fenced_s > AGAIN_S else "wait", why=facts.told)
        if seen.stage == "held":
            return Judgement("release")
        gone = seen.stage == "over" or (seen.stage == "unknown" and facts.unknown_s > facts.outlives)
        again = facts.fenced_s is None or facts.fenced_s > AGAIN_S
        return Judgement("fence", why=seen.why) if gone and again else Judgement("wait")
    silent = seen.silent_s or 0.0
    if lives or silent <= facts.lease_s or (seen.stage == "unknown" and facts.unknown_s <= facts.outlives):
        return Judgement("wait")
    if facts.fenced_s is None:
        return Judgement("fence")
    if facts.fenced_s <= facts.lease_s:
        return Judgement("wait")
    if account is None and not asked:
        return Judgement("ask")
    if account is None and facts.fenced_s <= facts.books_s:
        return Judgement("wait")
    if account is None:
        return Judgement("over", "lost", "it began, gave no more sign of life, and accounting does not know its end")
    status = "cancelled" if facts.cancelled else account.status
    return Judgement("over", status, "" if status == "succeeded" else account.why, account.wall_s)


def _received(facts: Facts, end: Mapping[str, Any], account: Account | None, *, asked: bool) -> Judgement:
    wall, why, error = end.get("wall_s"), end.get("ended_by", ""), str(end.get("error", ""))
    if end.get("exit_code") == 0 and not why:
        return Judgement("over", "succeeded", "", wall)
    plain: dict[str, tuple[Status, str]] = {
        "time": ("timeout", f"longer than {facts.limit_s:g} s"),
        "memory": ("oom", "more memory than its limit"),
        "stopped": ("cancelled" if facts.cancelled else "node_fail", "ended by the platform"),
        "cut off": ("node_fail", "its machine could not reach the shared folder"),
    }
    if why in plain:
        status, told = plain[why]
        return Judgement("over", status, told, wall)
    if why == "terminated":
        if facts.cancelled:
            return Judgement("over", "cancelled", "cancelled", wall)
        if account is None and not asked:
            return Judgement("ask")
        if account is not None and account.status in ("timeout", "node_fail", "oom"):
            return Judgement("over", account.status, account.why, wall)
        return Judgement("over", "cancelled", account.why if account else "told to end on its cluster", wall)
    if tells_memory(error) or "memoryerror" in error.lower().replace(" error", "error"):
        return Judgement("over", "oom", error, wall)
    told = error or (
        f"ended by {end['signal']}" if end.get("signal") else f"exit code {end.get('exit_code', 'unknown')}"
    )
    return Judgement("over", "failed", told, wall)
