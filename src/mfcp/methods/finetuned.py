"""What methods that train for the decision share: one budget, the same rounds, the same choice of a checkpoint."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from mfcp.arrays import Ints
from mfcp.errors import SettingsError
from mfcp.matching.regret import penalised_cost
from mfcp.methods.base import FinetuneSettings, Learned, Method, Trained, predict
from mfcp.methods.pretrain import Pretrained, PretrainSettings, only, spread_of
from mfcp.predictors.calibration import Calibration
from mfcp.predictors.corrected import Corrected, CorrectedHeads, widened
from mfcp.predictors.cross_fitted import MeanOfFolds
from mfcp.predictors.forecast import Mixture, OutOfFold
from mfcp.predictors.heads import Best, Heads, Loss
from mfcp.predictors.square_root import square_root
from mfcp.rules.base import Rule
from mfcp.rules.point import Point
from mfcp.study.reference import fastest as fastest_makespans
from mfcp.study.setting import Setting, gather


@dataclass(frozen=True)
class TrainingRounds:
    """The rounds of one step, R for each of S seeds; labels of pairs that do not exist are 0.

    Attributes:
        T_hat, A_hat: (S, R, M, N) predicted seconds and success probabilities, differentiable in the heads.
        T, A: (S, R, M, N) labels.
        allowed: (S, R, M, N) which pairs exist.
        gamma: (S, R) least mean reliability.
        fastest: (S, R) seconds to measure makespans in, see `mfcp.study.reference.fastest`.
        log_sd, a_sd: (S, 1, M, 1) calibrated spread of the starting heads, which the rule charges; 0 where it does not.
    """

    T_hat: Tensor
    A_hat: Tensor
    T: Tensor
    A: Tensor
    allowed: Tensor
    gamma: Tensor
    fastest: Tensor
    log_sd: Tensor
    a_sd: Tensor

    @staticmethod
    def of(
        setting: Setting, heads: Heads, rounds: Ints, fastest: np.ndarray, calibration: Calibration, rule: Rule
    ) -> TrainingRounds:
        """Labels and predictions of rounds (S, R, N), with the spread that a rule charges."""
        S, R, N = rounds.shape
        index = torch.as_tensor(rounds.reshape(S, -1))
        Z = torch.as_tensor(setting.Z).gather(1, index[..., None].expand(-1, -1, setting.Z.shape[2]))
        T_hat, A_hat = (x.reshape(S, -1, R, N).transpose(1, 2) for x in heads(Z))
        known = (gather(values, rounds) for values in (setting.T, setting.A, setting.allowed))
        T, A, allowed = (torch.as_tensor(np.nan_to_num(x)).reshape(T_hat.shape) for x in known)
        gamma = torch.as_tensor(setting.gamma)[:, None].expand(S, R)
        time_sd = rule.charged(calibration.own_sd, calibration.log_sd)
        log_sd, a_sd = (torch.as_tensor(x)[:, None, :, None] for x in (time_sd, calibration.a_sd))
        return TrainingRounds(T_hat, A_hat, T, A, allowed, gamma, torch.as_tensor(fastest), log_sd, a_sd)

    def one_predicted(self) -> TrainingRounds:
        """M rounds for each one: in the i-th, cluster i has its predictions and all others have their labels."""
        M = self.T.shape[2]
        own = torch.eye(M, dtype=torch.bool)[:, :, None]

        def mixed(predicted: Tensor, label: Tensor) -> Tensor:
            return torch.where(own, predicted[:, :, None], label[:, :, None]).flatten(1, 2)

        names = ("T", "A", "allowed", "gamma", "fastest")
        repeated = {name: getattr(self, name).repeat_interleave(M, dim=1) for name in names}
        return replace(self, T_hat=mixed(self.T_hat, self.T), A_hat=mixed(self.A_hat, self.A), **repeated)


class Finetuned(Method):
    """Go on from the pretrained heads, down the gradient of a loss of the decision (`decision_loss`).

    All seeds take their steps together, each on its own rounds: Adam, cosine decay, a clipped norm, and the
    checkpoint whose plans cost least on validation rounds, as small as those of training. Plans are there made by the
    method's rule, or by `Point` where the rule has a parameter, which is tuned only after training.

    With `forecast`, an ensemble goes on: each of its networks trains on rounds of the families that it knows and, where
    it learned validation labels, chooses its checkpoint on rounds of the fold that it left out. The mean is calibrated
    on what they left out, as they are then. With `corrects`, the same is done with networks that correct a stack of
    forecasts, each of which is out of fold in training.
    """

    loss: Loss = Field("log_time", description="error that the starting heads were trained for")
    forecast: str = Field("", description="cross-fitted networks to go on from instead, each without its fold")
    corrects: tuple[str, ...] = Field(
        (), description="forecasts whose stack networks correct instead, each without a fold"
    )
    updates: Literal["joint", "alternating"] = Field(
        "joint", description="of times and reliabilities: in every step, or in turn (§3.3 of the paper)"
    )

    @abstractmethod
    def decision_loss(
        self, rounds: TrainingRounds, setting: Setting, generators: list[torch.Generator]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """(S, R) what is descended, and further curves (S,) to watch by name.

        Args:
            rounds: predictions and labels.
            setting: zeta and price.
            generators: the randomness of each seed, so that none depends on its company.
        """

    def needs(self, settings: PretrainSettings) -> dict[str, Any]:
        """See `Method.needs`."""
        return only(settings, self.loss, self.corrects or ((self.forecast,) if self.forecast else ()))

    def steps(self, settings: FinetuneSettings) -> int:
        """See `Method.steps`."""
        return settings.steps

    def out_of_fold(self, setting: Setting, base: Pretrained, learned: Learned) -> OutOfFold | None:
        """See `Method.out_of_fold`; of networks that left out a fold, as they are now."""
        if isinstance(learned, Heads):
            return None
        bank, own, fold = self._ensemble(setting, base, learned)
        return bank.left_out(own.Z, fold)

    def spread(self, setting: Setting, base: Pretrained, left_out: OutOfFold | None) -> Calibration:
        """Of networks that left out a fold, how far they are off on it; else the spread of the starting heads."""
        if not self.rule.uses_spread:
            return super().spread(setting, base, left_out)
        return base.spread(self.loss) if left_out is None else spread_of(setting, left_out)

    def learn(
        self, setting: Setting, base: Pretrained, settings: FinetuneSettings, advance: Callable[[], Any]
    ) -> tuple[Learned, dict[str, np.ndarray]]:
        """See `Method.learn`."""
        learned = self._start(setting, base)
        calibration = self.spread(setting, base, self.out_of_fold(setting, base, learned))
        if isinstance(learned, Heads):
            return learned, self._descend(learned, setting, calibration, settings, advance)
        bank, own, fold = self._ensemble(setting, base, learned)
        F = int(bank.folds)
        calibration = Calibration(*(values.repeat(F, axis=0) for values in vars(calibration).values()))
        curves = self._descend(bank.heads, own.by_fold(fold), calibration, settings, advance)
        return learned, {name: values.reshape(-1, F, values.shape[1]).mean(1) for name, values in curves.items()}

    def _start(self, setting: Setting, base: Pretrained) -> Learned:
        """What training goes on from."""
        if not self.corrects:
            return base.copied(setting, self.forecast) if self.forecast else base.start(setting, self.loss)
        mixture, _ = base.mixture(setting, self.corrects, "out_of_fold")
        F = int(base.fold(setting, self.corrects[0]).max()) + 1
        seeds = [(seed, f + 1) for seed in setting.seeds for f in range(F)]
        heads = CorrectedHeads(base.settings.predictor, setting.Z.shape[2], setting.clusters, seeds)
        return Corrected(mixture, MeanOfFolds(heads, F))

    def _ensemble(self, setting: Setting, base: Pretrained, learned: Learned) -> tuple[MeanOfFolds, Setting, Ints]:
        """The networks that each left out a fold, the setting with the features that they see, and the folds."""
        if not isinstance(learned, Corrected):
            assert isinstance(learned, Mixture)
            return _bank(learned, self.forecast), setting, base.fold(setting, self.forecast)
        left_out = base.mixture(setting, self.corrects, "out_of_fold")[1]
        T, A = predict(learned.mixture, setting.Z, setting.operator_times)
        known = left_out.known[:, None]
        log_time, share = np.where(known, left_out.log_time, np.log(T)), np.where(known, left_out.reliability, A)
        Z = widened(*map(torch.as_tensor, (setting.Z, log_time, share))).numpy()
        return learned.bank, replace(setting, Z=Z), base.fold(setting, self.corrects[0])

    def _descend(
        self,
        heads: Heads,
        setting: Setting,
        calibration: Calibration,
        settings: FinetuneSettings,
        advance: Callable[[], Any],
    ) -> dict[str, np.ndarray]:
        """Train a bank with a member per seed, in place."""
        small = setting.at_size(settings.tasks or setting.matching.tasks)
        rounds = small.rounds("train", settings.steps * settings.rounds)
        fastest = fastest_makespans(small, "train", rounds.shape[1])
        optimizer = torch.optim.Adam(heads.parameters(), lr=settings.lr, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
        validation = _Validation(self, small, calibration)
        best = Best(heads)
        best.offer(validation.cost(heads))
        generators = [torch.Generator().manual_seed(seed) for seed in setting.seeds]
        curves: dict[str, list[Tensor]] = {}
        for step in range(settings.steps):
            part = slice(step * settings.rounds, (step + 1) * settings.rounds)
            drawn = TrainingRounds.of(small, heads, rounds[:, part], fastest[:, part], calibration, self.rule)
            per_round, watched = self.decision_loss(drawn, small, generators)
            cost = per_round.mean(1)
            optimizer.zero_grad()
            cost.sum().backward()  # type: ignore[no-untyped-call]
            if self.updates == "alternating":
                _rest(heads.reliability if step % 2 == 0 else heads.time)
            _clip(heads, settings.clip)
            optimizer.step()
            schedule.step()
            seen = {"train.cost": cost.detach(), **watched}
            if step % settings.check_every == settings.check_every - 1 or step == settings.steps - 1:
                seen["validation.penalised_cost"] = validation.cost(heads)
                best.offer(seen["validation.penalised_cost"])
            for name, value in seen.items():
                curves.setdefault(name, []).append(value)
            advance()
        best.restore()
        return {name: torch.stack(values, 1).numpy() for name, values in curves.items()}


def _bank(learned: Mixture, name: str) -> MeanOfFolds:
    bank = learned.models[name]
    if not isinstance(bank, MeanOfFolds):
        raise SettingsError(f"forecast: '{name}' is no cross-fitted one; take one of kind: cross_fitted")
    return bank


class _Validation:
    """The penalised cost of integer plans on the validation rounds, per seed."""

    def __init__(self, method: Method, setting: Setting, calibration: Calibration) -> None:
        self.method, self.setting, self.calibration = method, setting, calibration
        self.rule = method.rule if len(method.rule.candidates()) == 1 else Point()
        self.rounds = setting.rounds("validation", setting.matching.validation_rounds)
        self.truth = setting.problem(self.rounds)
        self.unit = fastest_makespans(setting, "validation", self.rounds.shape[1]).reshape(-1)

    def cost(self, heads: Heads) -> Tensor:
        """(S,) means."""
        price, seeds = self.setting.price, len(self.setting.seeds)
        trained = Trained(self.method, heads, self.calibration, np.zeros(seeds), {})
        beliefs = trained.beliefs(self.setting, self.rounds)
        parameter = self.rule.candidates()[0]
        plans = np.concatenate([self.rule.plan(belief, parameter=parameter, price=price) for belief in beliefs])
        cost = penalised_cost(plans, self.truth, price=price, unit=self.unit)
        return torch.as_tensor(cost.reshape(seeds, -1).mean(1))


def _rest(bank: nn.Module) -> None:
    """Leave a bank out of the coming step: a parameter without a gradient is not moved."""
    for parameter in bank.parameters():
        parameter.grad = None


def _clip(heads: Heads, largest: float) -> None:
    """Scale each member's gradient to at most this norm; a member never feels another's."""
    gradients = [p.grad for p in heads.parameters() if p.grad is not None]
    norm = square_root(torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0))
    factor = (largest / norm.clamp_min(1e-12)).clamp_max(1.0)
    for g in gradients:
        g.mul_(factor.reshape(-1, *(1,) * (g.ndim - 1)))
