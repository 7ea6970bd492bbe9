"""MFCP to the letter: Algorithms 1 and 2 as printed, with what they leave open filled in and nothing mended."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from mfcp.matching.reference.literal import (
    PRINTED_BETA,
    PRINTED_LAM,
    PRINTED_RATE,
    PRINTED_STEPS,
    forward_responses,
    printed_margin,
    printed_problem,
    printed_response,
    printed_slope,
    softmax_descent,
)
from mfcp.matching.relaxed.objective import balanced_makespan, smooth_makespan
from mfcp.methods.finetuned import Finetuned, TrainingRounds
from mfcp.predictors.heads import Loss
from mfcp.registry import FamilyField
from mfcp.rules.base import Rule
from mfcp.rules.rounded import Rounded
from mfcp.study.setting import Setting


class AsPrinted(Finetuned):
    """Algorithm 2 of [Huo2025]_ as printed, of plans by its Algorithm 1, rounded where they are used.

    For each cluster the plan X* is made of its predictions and the true rows of all others, by softmax of X itself.
    F of Eq. (12) is at both levels, without an entropy. dX*/dt̂ and dX*/dâ are those of Eq. (15) (`kkt`, MFCP-AD) or
    estimates from one-sided steps on t̂ and on â apart (`forward`, MFCP-FG); both networks step at once. What the paper
    does not tell: beta, lam, step lengths and Δ in units of a round's balanced makespan, and Adam with a checkpoint
    chosen on validation rounds, as for every other method.
    """

    name: ClassVar[str] = "as_printed"
    rule: FamilyField[Rule] = Rounded()
    loss: Loss = Field("time", description="error that the starting heads were trained for, Eq. (1)")
    gradient: Literal["kkt", "forward"] = Field("kkt", description="kkt: Eq. (15); forward: Algorithm 2")
    samples: int = Field(8, ge=1, description="forward: S")
    delta: float = Field(0.05, gt=0, description="forward: Δ, in balanced makespans and in reliability")
    beta: float = Field(PRINTED_BETA, gt=0, description="sharpness of the smooth maximum, per unit of time")
    lam: float = Field(PRINTED_LAM, gt=0, description="weight of the reliability barrier")

    def decision_loss(
        self, rounds: TrainingRounds, setting: Setting, generators: list[torch.Generator]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See `Finetuned.decision_loss`: F under the labels, over N, whose slope is the printed one."""
        clusters = rounds.T.shape[2]
        rounds = rounds.one_predicted()
        _S, R, M, N = rounds.T.shape
        own = torch.eye(M, dtype=torch.bool)[:, :, None].expand(M, M, N).repeat(R // clusters, 1, 1)
        values, slopes = [], []
        for s, generator in enumerate(generators):
            T_hat, A_hat, T, A = (x[s].detach() for x in (rounds.T_hat, rounds.A_hat, rounds.T, rounds.A))
            unit = balanced_makespan(T_hat, rounds.allowed[s])[:, None, None]
            weights = (rounds.gamma[s].contiguous(), self.beta, self.lam, rounds.allowed[s])
            believed = printed_problem(T_hat / unit, A_hat, *weights)
            true = printed_problem(T / rounds.fastest[s][:, None, None], A, *weights)
            X = softmax_descent(believed, steps=PRINTED_STEPS, rate=PRINTED_RATE)
            G = printed_slope(true, X) / N
            if self.gradient == "kkt":
                dT, dA = printed_response(believed, X, G)
            else:
                dT, dA = forward_responses(
                    believed, X, G, own, samples=self.samples, delta=self.delta, generator=generator
                )
            span = smooth_makespan(X, true.T, self.beta)
            values.append((span - self.lam * printed_margin(true, X).log()) / N)
            slopes.append((dT / unit * rounds.T_hat[s] + dA * rounds.A_hat[s]).sum((1, 2)))
        slope = torch.stack(slopes)
        return torch.stack(values) + slope - slope.detach(), {}
