"""Themis' auction: free accelerators are leased to those furthest behind, by what each would gain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats, Ints
from mfcp.simulator.policies.base import Uses
from mfcp.simulator.policies.deciding import Allotment, Decider, Deciding, Demand, fill
from mfcp.simulator.policies.scaling.smd import best_sums, ways_taken


class ThemisAuction(Deciding):
    """What is free is offered to the jobs of worst finish-time fairness, and leased for a while.

    Fairness is the time from submission to the believed end, over the time alone times the mean number of jobs since
    then. A bid says it for every number of accelerators; the auction maximises the product of their inverses. Winners
    pay: each keeps so large a part of its accelerators as the others' product with it is of that without it. What is
    left goes to other jobs by chance. Mahajan et al., "Themis: fair and efficient GPU cluster scheduling", NSDI
    2020, §5; without their placements, and a job is an app.
    """

    name: ClassVar[str] = "themis_auction"
    elastic: ClassVar[bool] = True
    uses: ClassVar[Uses] = ("expected",)
    instead: ClassVar[str] = "finish_time"
    lease_s: float = Field(600.0, gt=0, description="seconds that a job may keep what it has won")
    passed_over: float = Field(0.8, ge=0, lt=1, description="part of the jobs without a lease, the best off, that"
                               " are offered nothing")  # fmt: skip
    pays: bool = Field(True, description="whether winners pay for what they take from the others")
    seed: int = Field(0, ge=0, description="of the chance by which the rest is given")

    def start(self) -> Decider:
        """It remembers leases, and how crowded it was."""
        return _Auctions(self)


class _Auctions:
    """The auctions of one run.

    Attributes:
        ends: job → end of its lease; alone: job → seconds alone, and the crowd when it came.
        crowd: sum over time of the number of jobs; last: when it was last added to, and the number since then.
    """

    def __init__(self, policy: ThemisAuction) -> None:
        self.policy, self.random = policy, np.random.default_rng(policy.seed)
        self.ends, self.alone = dict[int, float](), dict[int, tuple[float, float]]()
        self.crowd, self.last = 0.0, (0.0, 0)

    def admit(self, demand: Demand, new: np.ndarray) -> np.ndarray:
        """All."""
        return new

    def decide(self, demand: Demand) -> Allotment:
        """Who has a lease keeps what it has; what is free is auctioned."""
        asked, jobs = _as_asked(demand), demand.job.tolist()
        unfair = self._unfairness(demand, asked)
        leased = np.array([self.ends.get(job, -np.inf) > demand.now for job in jobs]) & (demand.chosen >= 0)
        chosen = np.where(leased, demand.chosen, -1)
        free = int(demand.size[0] - demand.gpus[chosen[leased]].sum())
        bidders = np.flatnonzero(~leased)
        if free and len(bidders):
            worst = bidders[np.argsort(-unfair[bidders], kind="stable")]
            offered = worst[: math.ceil((1 - self.policy.passed_over) * len(worst))]
            won = auction(self._gains(demand, asked)[offered], demand.gpus, free, pays=self.policy.pays)
            chosen[offered] = won
            smaller = replace(demand, rate=np.where(demand.gpus <= demand.asked[:, None], demand.rate, 0.0))
            chosen = fill(smaller, self.random.permutation(bidders[chosen[bidders] < 0]), demand.rate, chosen)
        new = ~leased & (chosen >= 0)
        self.ends |= dict.fromkeys(demand.job[new].tolist(), demand.now + self.policy.lease_s)
        runs = demand.job[chosen >= 0].tolist()
        return Allotment(chosen, min((self.ends[job] for job in runs), default=np.inf))

    def _unfairness(self, demand: Demand, asked: Floats) -> Floats:
        """(k,) believed end from submission, over the time alone in the mean crowd so far."""
        since, count = self.last
        self.crowd += count * (demand.now - since)
        self.last = demand.now, len(demand.job)
        for job, seconds in zip(demand.job.tolist(), asked.tolist(), strict=True):
            self.alone.setdefault(job, (seconds, self.crowd))
        alone, crowd = np.array([self.alone[job] for job in demand.job.tolist()]).T
        age = demand.now - demand.submit
        mean = np.where(age > 0, (self.crowd - crowd) / np.where(age > 0, age, 1.0), len(demand.job))
        return np.asarray((age + asked) / (alone * np.maximum(mean, 1.0)))

    def _gains(self, demand: Demand, asked: Floats) -> Floats:
        """(k, C) log of how much fairer each way is than to wait for a lease and then run as asked; -inf if never."""
        age = (demand.now - demand.submit)[:, None]
        waits = age + self.policy.lease_s + asked[:, None]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(waits) - np.log(age + demand.seconds))


def _as_asked(demand: Demand) -> Floats:
    """(k,) seconds left on the accelerators that a job asks for, or the next smaller number that it can run on."""
    fits = (demand.gpus <= demand.asked[:, None]) & (demand.rate > 0)
    rate = np.where(fits, demand.rate, 0.0).max(axis=1)
    rate = np.where(rate > 0, rate, np.where(demand.rate > 0, demand.rate, np.inf).min(axis=1))
    return np.asarray(demand.left / rate)


def auction(gain: Floats, gpus: Ints, free: int, *, pays: bool = True) -> Ints:
    """(b,) the way that each bidder wins, -1 for none: of largest sum of gains, less what winners pay.

    Args:
        gain: (b, C) log of the value of each way over that of nothing; ways of negative gain are never taken.
        gpus: (C,) accelerators of each way.
        free: accelerators.
        pays: a winner gets the largest way within its accelerators times the others' product with it over that
            without it.
    """
    before, took = best_sums(gain, gpus, free)
    won = ways_taken(took, gpus)
    if not pays:
        return won
    after = best_sums(gain[::-1], gpus, free)[0][::-1]
    total, paid = before[-1, free], won.copy()
    for bidder in np.flatnonzero(won >= 0).tolist():
        alone = (before[bidder] + after[bidder + 1][::-1]).max()  # of the others, as if it were not there
        part = math.exp(total - gain[bidder, won[bidder]] - alone)
        fits = (gpus <= part * gpus[won[bidder]] * (1 + 1e-9)) & (gain[bidder] > 0)
        paid[bidder] = np.where(fits, gpus, -1).argmax() if fits.any() else -1
    return paid
