"""Losses over enumerated plans: what the literature trains predictors of linear costs through, one class each.

With all P = M^N plans at hand, choosing one is a linear problem over the simplex of plans whose cost vector
C(T, A) in R^P holds each plan's penalised cost. The published losses apply to it word for word, with e_p the
indicator of plan p, Ĉ = C(T̂, Â) predicted, C under the labels, and p* the plan that is best under the labels.

.. [Elmachtoub2022] Elmachtoub, Grigas, "Smart 'Predict, then Optimize'", Management Science 68(1), 2022.
.. [Berthet2020] Berthet et al., "Learning with Differentiable Perturbed Optimizers", NeurIPS 2020.
.. [Mulamba2021] Mulamba et al., "Contrastive Losses and Solution Caching for Predict-and-Optimize", IJCAI 2021.
.. [Mandi2022] Mandi et al., "Decision-Focused Learning: Through the Lens of Learning to Rank", ICML 2022.
.. [Pogancic2020] Vlastelica et al., "Differentiation of Blackbox Combinatorial Solvers", ICLR 2020.
.. [Niepert2021] Niepert, Minervini, Franceschi, "Implicit MLE", NeurIPS 2021.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.normal import expected_maximum, expected_shortfall
from mfcp.matching.planning import FALLBACK_PRICE
from mfcp.matching.problem import SLACK
from mfcp.predictors.square_root import square_root
from mfcp.registry import Registered
from mfcp.rules.expected_cost import WIDEST

FORBIDDEN = 1e6  # cost of a plan over a pair that does not exist: finite, so that no two infinities meet


@dataclass(frozen=True)
class PlanCosts:
    """The penalised cost of every plan of S × R rounds, as a function of times and reliabilities.

    Attributes:
        gamma: (S, R) least mean reliability.
        allowed: (S, R, M, N) which pairs exist.
        price: makespans per unit of missing reliability.
        zeta: (M, N + 1) factors of parallel execution or None.
    """

    gamma: Tensor
    allowed: Tensor
    price: float
    zeta: Tensor | None = None

    def __call__(self, T: Tensor, A: Tensor) -> Tensor:
        """(S, R, …, P) makespan / unit + price · max(0, gamma - reliability), differentiable in T and A.

        The unit is the makespan of the round's point plan under the same T and A, as in the metric and in the rule
        `priced`: Ĉ does not change with the scale of T̂.

        Args:
            T, A: (S, R, …, M, N) seconds, success probabilities; samples may stand between rounds and pairs.
        """
        M, N = T.shape[-2:]
        between = (1,) * (T.ndim - 4)
        indicator = torch.tensor(all_plans(M, N)[1], dtype=T.dtype)  # (M, N, P)
        forbidden = None
        if not self.allowed.all():
            missing = ~self.allowed.reshape(*self.gamma.shape, *between, M, N)
            T = T.masked_fill(missing, 0.0)
            forbidden = missing.to(T.dtype).flatten(-2) @ indicator.flatten(0, 1) > 0
        load = torch.bmm(T.reshape(-1, M, N).transpose(0, 1), indicator)  # (M, S·R·…, P)
        if self.zeta is not None:
            load = load * self.zeta.gather(1, indicator.sum(1).long())[:, None]
        span = load.amax(0).reshape(*T.shape[:-2], -1)
        reached = (A.reshape(-1, M * N) @ (indicator.flatten(0, 1) / N)).reshape(span.shape)
        short = (self.gamma.reshape(*self.gamma.shape, *between, 1) - reached).clamp_min(0.0)
        unit = span.gather(-1, _point_plan(span, short, forbidden))
        cost = torch.add(span / unit, short, alpha=self.price)
        return cost if forbidden is None else cost.masked_fill(forbidden, FORBIDDEN)


@dataclass(frozen=True)
class ExpectedCosts(PlanCosts):
    """The expected cost of every plan under calibrated predictions: what the rule `expected_cost` minimises.

    Attributes:
        log_sd, a_sd: (S, 1, M, 1) deviations of log time and of the success probability.
    """

    log_sd: Tensor = field(default_factory=lambda: torch.zeros(()))
    a_sd: Tensor = field(default_factory=lambda: torch.zeros(()))

    def __call__(self, T: Tensor, A: Tensor) -> Tensor:
        """(S, R, P) E[makespan] / unit + price · E[shortfall] by the formulas of `matching.normal`, differentiable.

        The unit is the makespan of the point plan on the mean times, without a derivative.
        """
        M, N = T.shape[-2:]
        indicator = torch.tensor(all_plans(M, N)[1], dtype=T.dtype)
        variance = self.log_sd.clamp_max(WIDEST) ** 2
        mean = torch.where(self.allowed, T * (variance / 2).exp(), 0.0)
        pairs = torch.stack([mean, mean**2 * torch.expm1(variance), A, (self.a_sd**2).expand_as(A)])
        totals = torch.einsum("csrmn,mnp->csrmp", pairs, indicator)
        load, load_variance = totals[0], totals[1]
        if self.zeta is not None:
            factor = self.zeta.gather(1, indicator.sum(1).long())
            load, load_variance = load * factor, load_variance * factor**2
        reached, noise = totals[2].sum(-2) / N, totals[3].sum(-2) / N**2
        gamma = self.gamma[..., None]
        used = torch.einsum("srmn,mnp->srp", (~self.allowed).to(T.dtype), indicator)
        forbidden = used > 0 if bool(used.any()) else None
        span, short = load.detach().amax(-2), (gamma - reached.detach()).clamp_min(0.0)
        unit = span.gather(-1, _point_plan(span, short, forbidden))
        missing = expected_shortfall(reached - gamma, square_root(noise.clamp_min(1e-12)))
        cost = expected_maximum(load, load_variance) / unit + self.price * missing
        return cost if forbidden is None else cost.masked_fill(forbidden, FORBIDDEN)


@torch.no_grad()
def _point_plan(span: Tensor, short: Tensor, forbidden: Tensor | None) -> Tensor:
    """(…, 1) index of the plan that `solve_or_fall_back` makes, of all plans' makespan and shortfall (…, P)."""
    worth = span if forbidden is None else span.masked_fill(forbidden, torch.inf)
    least, point = worth.masked_fill(short > SLACK, torch.inf).min(-1, keepdim=True)
    lost = least.squeeze(-1).isinf()  # no plan reaches gamma
    if lost.any():
        worth, short = worth[lost], short[lost]
        point[lost] = (worth + FALLBACK_PRICE * worth.amin(-1, keepdim=True) * short).argmin(-1, keepdim=True)
    return point


@dataclass(frozen=True)
class Choice:
    """A step's rounds as choices among P plans.

    Attributes:
        T_hat, A_hat: (S, R, M, N) predictions, differentiable.
        cost: C(T, A).
        predicted: (S, R, P) Ĉ, differentiable.
        true: (S, R, P) C under the labels; `FORBIDDEN` in both where a plan uses a pair that does not exist.
    """

    T_hat: Tensor
    A_hat: Tensor
    cost: PlanCosts
    predicted: Tensor
    true: Tensor

    @property
    def target(self) -> Tensor:
        """(S, R, 1) index of p*."""
        return self.true.argmin(-1, keepdim=True)


class PlanLoss(Registered):
    """Family of losses over plans."""

    @abstractmethod
    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """(S, R) losses whose gradient in the predictions is the published one; randomness from each seed's own."""


class Softmin(PlanLoss):
    """Σ_p softmin(Ĉ / temperature)_p C_p: the true cost of a plan that is drawn rather than chosen."""

    name: ClassVar[str] = "softmin"
    temperature: float = Field(0.02, gt=0, description="in makespans")

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        return (torch.softmax(-choice.predicted / self.temperature, -1) * choice.true).sum(-1)


class SpoPlus(PlanLoss):
    """max_p (C - 2 Ĉ)_p + 2 Ĉ_p* - C_p*: convex in Ĉ and never below the regret of Ĉ's best plan [Elmachtoub2022]_."""

    name: ClassVar[str] = "spo_plus"

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        target = choice.target
        spread = (choice.true - 2 * choice.predicted).amax(-1)
        return spread + (2 * choice.predicted.gather(-1, target) - choice.true.gather(-1, target)).squeeze(-1)


class FenchelYoung(PlanLoss):
    """Ĉ_p* - E min_p (Ĉ + sigma Z)_p with normal Z: gradient e_p* - E e_argmin, by Monte Carlo [Berthet2020]_."""

    name: ClassVar[str] = "fenchel_young"
    sigma: float = Field(0.2, gt=0, description="deviation of the noise on a plan's cost, in makespans")
    samples: int = Field(8, ge=1, description="draws per round and step")

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        noise = self.sigma * _normal((self.samples, choice.predicted.shape[-1]), choice, generators)
        pick = (choice.predicted.detach().unsqueeze(2) + noise).argmin(-1)  # (S, R, K)
        least = choice.predicted.gather(-1, pick) + noise.gather(-1, pick.unsqueeze(-1)).squeeze(-1)
        return choice.predicted.gather(-1, choice.target).squeeze(-1) - least.mean(-1)


class Perturbed(PlanLoss):
    """E of the true cost of the plan chosen under noise on the predictions, by its score function [Berthet2020]_.

    Normal noise on log T̂ and on Â; each draw's baseline is the mean cost of the others, which leaves the estimate of
    the gradient unbiased.
    """

    name: ClassVar[str] = "perturbed"
    sigma: float = Field(0.1, gt=0, description="deviation of the noise on log t, and on a")
    samples: int = Field(16, ge=2, description="draws per round and step")

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        shape = choice.T_hat.shape[2:]
        noise = _normal((self.samples, 2, *shape), choice, generators)
        theta = torch.stack([choice.T_hat.log(), choice.A_hat], 2).unsqueeze(2)  # (S, R, 1, 2, M, N)
        with torch.no_grad():
            near = theta + self.sigma * noise
            pick = choice.cost(near[:, :, :, 0].exp(), near[:, :, :, 1]).argmin(-1)
            cost = choice.true.gather(-1, pick)  # (S, R, K)
            mean = cost.mean(-1, keepdim=True)
            advantage = (cost - mean) * self.samples / (self.samples - 1)  # = cost - mean of the others
            score = (advantage[..., None, None, None] * noise).mean(2, keepdim=True) / self.sigma
        return _value_with_gradient(mean.squeeze(-1), (score * theta).sum((2, 3, 4, 5)))


class Nce(PlanLoss):
    """Ĉ_p* - mean of Ĉ over the pool, here all plans: noise-contrastive estimation of p* [Mulamba2021]_.

    Linear in Ĉ, hence unbounded below: how far it goes is decided by the budget and the checkpoint.
    """

    name: ClassVar[str] = "nce"

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        pool = choice.true < FORBIDDEN
        mean = torch.where(pool, choice.predicted, 0.0).sum(-1) / pool.sum(-1)
        return choice.predicted.gather(-1, choice.target).squeeze(-1) - mean


class Map(PlanLoss):
    """max_p of (Ĉ - C)_p* - (Ĉ - C)_p, the contrast with the plan that Ĉ most underrates: MAP of [Mulamba2021]_."""

    name: ClassVar[str] = "map"

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        gap = choice.predicted - choice.true
        least = gap.masked_fill(choice.true >= FORBIDDEN, torch.inf).amin(-1)
        return gap.gather(-1, choice.target).squeeze(-1) - least


class Listwise(PlanLoss):
    """Cross-entropy of softmin(C / temperature) and softmin(Ĉ / temperature) over all plans: ListNet [Mandi2022]_."""

    name: ClassVar[str] = "listwise"
    temperature: float = Field(0.1, gt=0, description="in makespans")

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        wanted = torch.softmax(-choice.true / self.temperature, -1)
        return -(wanted * torch.log_softmax(-choice.predicted / self.temperature, -1)).sum(-1)


class Blackbox(PlanLoss):
    """True cost of Ĉ's best plan p, with gradient -(e_p - e_p') / lam, p' the best of Ĉ + lam C [Pogancic2020]_."""

    name: ClassVar[str] = "blackbox"
    lam: float = Field(1.0, gt=0, description="step of the interpolation")

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        pick = choice.predicted.detach().argmin(-1, keepdim=True)
        moved = (choice.predicted.detach() + self.lam * choice.true).argmin(-1, keepdim=True)
        step = choice.predicted.gather(-1, moved) - choice.predicted.gather(-1, pick)
        return _value_with_gradient(choice.true.gather(-1, pick).squeeze(-1), step.squeeze(-1) / self.lam)


class Imle(PlanLoss):
    """True cost of a sampled plan, by implicit maximum likelihood: perturb-and-MAP twice on one noise [Niepert2021]_.

    With theta = -Ĉ and target theta' = theta - lam C the gradient in theta is (E e_MAP(theta + noise) -
    E e_MAP(theta' + noise)) / lam. Gumbel noise, which on the simplex samples exactly from softmin(Ĉ / sigma).
    """

    name: ClassVar[str] = "imle"
    lam: float = Field(1.0, gt=0, description="step towards the target distribution")
    sigma: float = Field(0.03, gt=0, description="scale of the noise on a plan's cost, in makespans")
    samples: int = Field(8, ge=1, description="draws per round and step")

    def of(self, choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
        """See `PlanLoss.of`."""
        shape = (self.samples, choice.predicted.shape[-1])
        noisy = choice.predicted.detach().unsqueeze(2) + self.sigma * _negative_gumbel(shape, choice, generators)
        pick = noisy.argmin(-1)
        moved = (noisy + self.lam * choice.true.unsqueeze(2)).argmin(-1)
        step = (choice.predicted.gather(-1, moved) - choice.predicted.gather(-1, pick)).mean(-1)
        return _value_with_gradient(choice.true.gather(-1, pick).mean(-1), step / self.lam)


def _value_with_gradient(value: Tensor, like: Tensor) -> Tensor:
    """`value`, with the gradient of `like`."""
    return value.detach() + like - like.detach()


def _normal(shape: Sequence[int], choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
    """(S, R, *shape) standard normal numbers, each seed's from its own generator."""
    noise = choice.true.new_empty((*choice.true.shape[:2], *shape))
    for own, generator in zip(noise, generators, strict=True):
        own.normal_(generator=generator)
    return noise


def _negative_gumbel(shape: Sequence[int], choice: Choice, generators: Sequence[torch.Generator]) -> Tensor:
    """(S, R, *shape) logarithms of standard exponential numbers, the noise whose least sum is drawn by softmin."""
    noise = choice.true.new_empty((*choice.true.shape[:2], *shape))
    for own, generator in zip(noise, generators, strict=True):
        own.uniform_(generator=generator)
    return noise.log_().neg_().log_()  # faster than exponential_()
