"""MFCP: train the predictors through the matching, for the cost of the plan they lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from mfcp.data.study import Setting, gather
from mfcp.matching.gradients import Gradient, Implicit
from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.problem import Ints
from mfcp.matching.regret import penalised_cost
from mfcp.matching.relaxation import relaxed_solution
from mfcp.methods.base import FinetuneRules, Method, Trained
from mfcp.methods.pretrain import Pretrained
from mfcp.predictors.calibration import Calibration
from mfcp.predictors.heads import Best, Heads, Loss
from mfcp.registry import FamilyField


class DecisionFocused(Method):
    """MFCP of [Huo2025]_: gradient descent on the decision's cost through X*(T̂, Â), Eqs. (11)-(13).

    The lower level is the relaxed matching of Eqs. (8)-(10), in the parallel regime of Eqs. (16)-(17), in units of
    each round's fastest balanced makespan. The upper level is the makespan of the relaxed plan under the labels, over
    the round's optimum, plus the price of missing reliability. This deviates from Eq. (12), whose barrier at the top
    was measured to be worse (docs/decisions/0052). MFCP-AD and MFCP-FG are two values of `gradient`.
    """

    name: ClassVar[str] = "decision_focused"
    loss: Loss = Field("log_time", description="error that the starting heads were trained for")
    gradient: FamilyField[Gradient] = Implicit()
    cost: Literal["makespan", "total"] = Field("makespan", description="total: ablation with the summed time")
    beta: float = Field(40.0, gt=0, description="sharpness of the smooth maximum, per unit of time")
    lam: float = Field(0.003, gt=0, description="weight of the reliability barrier")
    tau: float = Field(0.01, gt=0, description="weight of the entropy")

    def steps(self, rules: FinetuneRules) -> int:
        """See `Method.steps`."""
        return rules.steps

    def spread(self, setting: Setting, base: Pretrained) -> Calibration:
        """The spread of the heads that training started from, where the rule uses one."""
        return base.spread(self.loss) if self.rule.uses_spread else super().spread(setting, base)

    def learn(
        self, setting: Setting, base: Pretrained, rules: FinetuneRules, advance: Callable[[], Any]
    ) -> tuple[Heads, dict[str, np.ndarray]]:
        """See `Method.learn`; all seeds take their steps together, each on its own rounds."""
        heads = base.start(setting, self.loss)
        rounds = setting.rounds("train", rules.steps * rules.rounds)
        optimum = solve_or_fall_back(setting.problem(rounds)).makespan.reshape(rounds.shape[:2])
        optimizer = torch.optim.Adam(heads.parameters(), lr=rules.lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, rules.steps)
        validation = _Validation(self, setting)
        best = Best(heads)
        best.offer(validation.cost(heads))
        generators = [torch.Generator().manual_seed(seed) for seed in setting.seeds]
        watched, failed, costs = [], [], []
        for step in range(rules.steps):
            part = slice(step * rules.rounds, (step + 1) * rules.rounds)
            loss, unsolved = self._loss(heads, setting, rounds[:, part], torch.as_tensor(optimum[:, part]), generators)
            optimizer.zero_grad()
            loss.sum().backward()  # type: ignore[no-untyped-call]
            _clip(heads, rules.clip)
            optimizer.step()
            schedule.step()
            watched.append(loss.detach())
            failed.append(unsolved)
            if step % rules.check_every == rules.check_every - 1 or step == rules.steps - 1:
                costs.append(validation.cost(heads))
                best.offer(costs[-1])
            advance()
        best.restore()
        history = {
            "train.cost": torch.stack(watched, 1),
            "solver.failed_fraction": torch.stack(failed, 1),
            "validation.penalised_cost": torch.stack(costs, 1),
        }
        return heads, {key: value.numpy() for key, value in history.items()}

    def _loss(
        self, heads: Heads, setting: Setting, rounds: Ints, optimum: Tensor, generators: list[torch.Generator]
    ) -> tuple[Tensor, Tensor]:
        """(S,) mean cost of the relaxed plans of rounds (S, R, N) under the labels, and the share without a gradient.

        Rounds whose predictions put gamma out of reach, or that the solver gives up on, do not stop training: they
        are counted, and carry a zero gradient.
        """
        S, R, N = rounds.shape
        index = torch.as_tensor(rounds.reshape(S, -1))
        Z = torch.as_tensor(setting.Z).gather(1, index[..., None].expand(-1, -1, setting.Z.shape[2]))
        T_hat, A_hat = (x.reshape(S, -1, R, N).transpose(1, 2) for x in heads(Z))  # (S, R, M, N)
        shape = T_hat.shape
        allowed = torch.as_tensor(gather(setting.allowed, rounds)).reshape(shape)
        T = torch.as_tensor(np.nan_to_num(gather(setting.T, rounds))).reshape(shape)
        A = torch.as_tensor(np.nan_to_num(gather(setting.A, rounds))).reshape(shape)
        gamma = torch.as_tensor(setting.gamma)[:, None].expand(S, R)
        fastest = torch.where(allowed, T_hat.detach(), torch.inf).amin(2).sum(2)
        unit = (fastest / setting.clusters)[..., None, None]
        solution = relaxed_solution(
            T_hat / unit, A_hat, gamma, beta=self.beta, lam=self.lam, tau=self.tau, allowed=allowed,
            gradient=self.gradient, generator=generators, speedup=setting.speedup,
        )  # fmt: skip
        X = solution.X
        load = (X * T).sum(3)
        if setting.speedup is not None:
            load = load * setting.speedup(X.sum(3))
        span = load.amax(2) if self.cost == "makespan" else load.sum(2) / setting.clusters
        short = (gamma - (X * A).sum((2, 3)) / N).clamp_min(0.0)
        cost: Tensor = (span / optimum + setting.price * short).mean(1)
        return cost, 1.0 - solution.converged.double().mean(1)


class _Validation:
    """The penalised cost of exact plans on the validation rounds, per seed."""

    def __init__(self, method: Method, setting: Setting) -> None:
        self.method, self.setting = method, setting
        self.rounds = setting.rounds("validation", setting.rules.validation_rounds)
        self.truth = setting.problem(self.rounds)
        self.unit = solve_or_fall_back(self.truth).makespan

    def cost(self, heads: Heads) -> Tensor:
        S, M = len(self.setting.seeds), self.setting.clusters
        nothing = np.zeros((S, M))
        trained = Trained(self.method, heads, Calibration(nothing, nothing), np.zeros(S), {})
        beliefs = trained.beliefs(self.setting, self.rounds)
        plans = np.concatenate([solve_or_fall_back(belief.problem()).assignment for belief in beliefs])
        price = self.setting.price
        cost = penalised_cost(plans, self.truth, price=price, unit=self.unit)
        return torch.as_tensor(cost.reshape(S, -1).mean(1))


def _clip(heads: Heads, largest: float) -> None:
    """Scale each member's gradient to at most this norm; a member never feels another's."""
    gradients = [p.grad for p in heads.parameters() if p.grad is not None]
    norm = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    factor = (largest / norm.clamp_min(1e-12)).clamp_max(1.0)
    for g in gradients:
        g.mul_(factor.reshape(-1, *(1,) * (g.ndim - 1)))
