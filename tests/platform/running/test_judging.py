"""What is done about an attempt, for every combination of what may be known of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mfcp.executors.base import Account, JobSeen
from mfcp.executors.supervise import LEASE_S
from mfcp.platform.running.judging import Facts, judge

DONE = {"exit_code": 0, "wall_s": 1.5, "ended_by": ""}
seconds = st.one_of(st.sampled_from([0.0, 0.5, LEASE_S, LEASE_S + 0.1, 61.0]), st.floats(0, 1000))
begins = st.sampled_from([None, {"at": 1.0}, {"fenced": True}, {}])
ends = st.sampled_from(
    [None, DONE, {"exit_code": 1}, {"ended_by": "time", "wall_s": 3.0}, {"ended_by": "terminated"}, {}]
)
accounts = st.sampled_from([None, Account("succeeded", "COMPLETED", 2.0), Account("cancelled", "CANCELLED by 0")])


@st.composite
def facts(draw):
    begin = draw(begins)
    seen = JobSeen(
        draw(st.sampled_from(["held", "waiting", "running", "over", "unknown"])),
        (),
        begin,
        draw(ends) if begin is not None else None,
        None if begin is None else draw(seconds),
    )
    fenced = draw(st.one_of(st.none(), seconds))
    return Facts(seen, draw(seconds), fenced, draw(st.booleans()), 10.0)


@given(facts(), accounts, st.booleans())
def test_what_may_still_run_or_start_is_never_over(facts, account, asked):
    """Over are only those with a receipt of their end, those that the platform claimed, and those that fell silent."""
    verdict = judge(facts, account, asked=asked)
    seen = facts.seen
    if verdict.act != "over":
        return
    claimed = seen.begin is not None and bool(seen.begin.get("fenced")) and seen.stage not in ("held", "waiting")
    silent = seen.begin is not None and seen.silent_s > LEASE_S and seen.stage in ("over", "unknown")
    assert seen.end is not None or claimed or (silent and facts.fenced_s is not None and facts.fenced_s > LEASE_S)


@given(facts(), accounts)
def test_nothing_is_released_that_began_or_was_given_up(facts, account):
    if judge(facts, account).act == "release":
        assert facts.seen.stage == "held"
        assert facts.seen.begin is None
        assert not facts.cancelled
        assert facts.fenced_s is None


@given(facts())
def test_an_attempt_never_waits_for_good(facts):
    """With every clock run out and accounting asked, all that is not alive gets an end, or is made to have one."""
    seen = facts.seen
    lives = seen.stage in ("held", "waiting", "running")
    given_up = facts.cancelled or (facts.fenced_s is not None and seen.begin is None)
    if lives and not given_up:
        return
    late = Facts(
        JobSeen(seen.stage, seen.jobs, seen.begin, seen.end, None if seen.silent_s is None else 1e6),
        1e6, None if facts.fenced_s is None else 1e6, facts.cancelled, 10.0,
    )  # fmt: skip
    if (
        seen.end is not None
        or not lives
        or seen.begin is None
        or not seen.begin.get("fenced")
        or seen.stage != "running"
    ):
        assert judge(late, None, asked=True).act in ("fence", "over")


def test_a_receipt_stands_above_the_books():
    """Slurm that starts again says CANCELLED of a job that goes on to its end."""
    cancelled = Account("cancelled", "CANCELLED by 0")
    assert judge(Facts(JobSeen("over", (), {"at": 1.0}, DONE, 30.0)), cancelled).status == "succeeded"
    assert judge(Facts(JobSeen("over", (), {"at": 1.0}, None, 0.5)), cancelled).act == "wait"


def test_ends_are_told_apart():
    def status(account=None, *, cancelled=False, **end):
        return judge(Facts(JobSeen("over", (), {"at": 1.0}, end, 0.0), cancelled=cancelled), account, asked=True).status

    assert status(**DONE) == "succeeded"
    assert status(exit_code=1, error="ValueError: loss is nan") == "failed"
    assert status(exit_code=1, error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB") == "oom"
    assert status(exit_code=1, error="MemoryError") == "oom"
    assert status(exit_code=1, error="RuntimeError: DefaultCPUAllocator: can't allocate memory") == "oom"
    assert status(ended_by="memory") == "oom"
    assert status(ended_by="time") == "timeout"
    assert status(ended_by="cut off") == "node_fail"
    assert status(ended_by="stopped") == "node_fail"
    assert status(ended_by="stopped", cancelled=True) == "cancelled"
    assert status(Account("timeout", "TIMEOUT"), ended_by="terminated") == "timeout"
    assert status(Account("cancelled", "CANCELLED by 5"), ended_by="terminated") == "cancelled"
    assert status(ended_by="terminated") == "cancelled"
    assert status() == "failed"  # an end that says nothing is none of success
