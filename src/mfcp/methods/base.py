"""The family of learning methods, and what one has learned for a setting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Floats, Ints
from mfcp.border.json_text import read_json
from mfcp.errors import DataError
from mfcp.files import replacing, write_json
from mfcp.methods.pretrain import Pretrained, PretrainSettings
from mfcp.methods.training_curves import PREFIX, curves_in
from mfcp.predictors.base import Predictor
from mfcp.predictors.calibration import Calibration
from mfcp.predictors.corrected import Corrected
from mfcp.predictors.forecast import Forecaster, Mixture, OracleForecast, OutOfFold, TaskInputs
from mfcp.predictors.heads import Heads
from mfcp.predictors.residuals import ObservedCells, ResidualProcess, TaskPoints
from mfcp.registry import FamilyField, Registered, import_members
from mfcp.rules.base import Belief, Rule
from mfcp.rules.measuring import informed
from mfcp.rules.point import Point
from mfcp.study.setting import Setting, gather
from mfcp.threads import one_thread

Learned = Heads | Mixture | Corrected | OracleForecast
"""What predicts: heads that decisions are descended through, a mean of forecasts, perhaps corrected, or the truth."""


class FinetuneSettings(BaseModel):
    """Section `finetune` of params.yaml: how decision-focused methods go on from the pretrained heads."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    steps: int = Field(200, ge=1, description="Adam steps")
    rounds: int = Field(32, ge=1, description="rounds per seed and step")
    lr: float = Field(3e-3, gt=0, description="peak learning rate; cosine decay to zero")
    clip: float = Field(1.0, gt=0, description="largest gradient norm per seed")
    check_every: int = Field(10, ge=1, description="steps between looks at the validation rounds")
    tasks: int | None = Field(None, ge=1, description="tasks of a round in training; none: as many as are matched")


class Method(Registered):
    """How predictors are trained, and with which rule they decide.

    A row under `methods:` of params.yaml is one member with its fields; ablations are rows, not code.
    """

    rule: FamilyField[Rule] = Point()

    @abstractmethod
    def learn(
        self, setting: Setting, base: Pretrained, settings: FinetuneSettings, advance: Callable[[], Any]
    ) -> tuple[Learned, dict[str, np.ndarray]]:
        """Predictors of every seed, and the curves (S, checks) of what was watched."""

    def out_of_fold(self, setting: Setting, base: Pretrained, learned: Learned) -> OutOfFold | None:
        """Of tasks whose labels were learned: predictions by parts that did not learn them; None where none are."""
        return None

    def spread(self, setting: Setting, base: Pretrained, left_out: OutOfFold | None) -> Calibration:
        """How far what was learned is off; zero unless the rule asks for it (`uses_spread`)."""
        return Calibration.none(len(setting.seeds), setting.clusters)

    def needs(self, settings: PretrainSettings) -> dict[str, Any]:
        """The fields of pretraining with no more in them than this method uses: `losses`, `calibrated`, `forecasts`."""
        return {}

    def steps(self, settings: FinetuneSettings) -> int:
        """How often `learn` calls `advance`."""
        return 0

    @one_thread()
    def fit(
        self,
        setting: Setting,
        base: Pretrained,
        settings: FinetuneSettings,
        *,
        advance: Callable[[], Any] = lambda: None,
    ) -> Trained:
        """Learn, calibrate, and tune the rule on validation rounds.

        Args:
            setting: labels, features, splits and gamma.
            base: pretrained heads and their calibration.
            settings: the budget of decision-focused training, the same for all.
            advance: called once per step.
        """
        heads, history = self.learn(setting, base, settings, advance)
        left_out = self.out_of_fold(setting, base, heads)
        spread = self.spread(setting, base, left_out)
        errors = () if left_out is None else error_processes(setting, left_out)
        return Trained(self, heads, spread, np.zeros(len(setting.seeds)), history, left_out, errors).tuned(setting)


@dataclass(frozen=True)
class Trained:
    """What a method learned for one setting, all seeds.

    Attributes:
        method: the method with its fields.
        heads: a bank with one member per seed, or a mixture of forecasts.
        calibration: (S, M) spreads.
        parameter: (S,) the rule's parameter, chosen on validation rounds.
        history: name → (S, checks) curves.
        out_of_fold: what stands in for the predictions of tasks that were learned; None where these were not used.
        errors: per seed, what errors of predicted times have in common; none where nothing is predicted out of fold.
    """

    method: Method
    heads: Learned
    calibration: Calibration
    parameter: Floats
    history: dict[str, np.ndarray]
    out_of_fold: OutOfFold | None = None
    errors: tuple[ResidualProcess, ...] = ()
    _last: list[Any] = field(default_factory=list, repr=False, compare=False)

    def predict(self, setting: Setting) -> tuple[Floats, Floats]:
        """Predicted seconds and success probabilities of every task: each (S, M, n).

        A task whose labels were learned is predicted by the parts that did not learn them, so that what is chosen on
        validation rounds is chosen honestly. The predictions for the last setting are kept: rules are tuned and judged
        at many margins on the same ones.
        """
        if self._last and self._last[0] is setting:
            return self._last[1], self._last[2]
        T, A = predict(self.heads, setting.Z, setting.operator_times)
        if self.out_of_fold is not None:
            known = self.out_of_fold.known[:, None]
            T = np.where(known, np.exp(self.out_of_fold.log_time), T)
            A = np.where(known, self.out_of_fold.reliability, A)
        self._last[:] = [setting, T, A]
        return T, A

    def process(self, s: int = 0) -> ResidualProcess:
        """What the errors of the s-th seed have in common; without errors out of fold, what its calibration says."""
        if self.errors:
            return self.errors[s]
        own = float((self.calibration.own_sd[s] ** 2).mean())
        whole = float((self.calibration.log_sd[s] ** 2).mean())
        return ResidualProcess.independent(max(whole - own, 0.0), own, self.calibration.own_sd.shape[1])

    def beliefs(self, setting: Setting, rounds: Ints, observed: Sequence[ObservedCells] | None = None) -> list[Belief]:
        """Per seed, the predictions for its rounds (S, R, N), after what was observed since it was trained.

        Args:
            setting: what was learned.
            rounds: tasks of each round.
            observed: per seed, cells whose predictions are those of `predict`; None or none of them changes nothing.
        """
        T, A = self.predict(setting)
        result = []
        for s in range(len(setting.seeds)):
            own = rounds[s : s + 1]
            times, reliabilities = gather(T[s], own), gather(A[s], own)
            belief = Belief.of(
                times,
                reliabilities,
                log_sd=self.calibration.log_sd[s],
                own_sd=self.calibration.own_sd[s],
                a_sd=self.calibration.a_sd[s],
                gamma=setting.gamma[s],
                allowed=gather(setting.allowed, own),
                zeta=setting.zeta,
            )
            if observed is not None and len(observed[s].cluster):
                process = self.process(s)
                told = process.condition(points_of(setting, s).take(own.ravel()), observed[s])
                shift, after, untold = (
                    v.reshape(*own.shape[1:], *v.shape[1:]) for v in (told.shift, told.covariance, told.untold)
                )
                belief = informed(belief, shift, np.broadcast_to(process.total, after.shape), after, untold)
            result.append(belief)
        return result

    def plan(self, setting: Setting, rounds: Ints) -> Ints:
        """(S·R, N) plans for rounds (S, R, N)."""
        beliefs = self.beliefs(setting, rounds)
        return np.concatenate([self.decide(setting, s, belief) for s, belief in enumerate(beliefs)])

    def decide(self, setting: Setting, s: int, belief: Belief, margin: float = 0.0) -> Ints:
        """(R, N) plans of the s-th seed for its belief about R rounds; `margin` is added to gamma."""
        return self.method.rule.plan(belief, parameter=float(self.parameter[s]), price=setting.price, margin=margin)

    def tuned(self, setting: Setting) -> Trained:
        """The same with the rule's parameter chosen on each seed's validation rounds."""
        rounds = setting.rounds("validation", setting.matching.validation_rounds)
        truth = setting.problem(rounds)
        count = rounds.shape[1]
        parameter = [
            self.method.rule.tune(belief, truth.take(np.arange(s * count, (s + 1) * count)), price=setting.price)
            for s, belief in enumerate(self.beliefs(setting, rounds))
        ]
        return replace(self, parameter=np.array(parameter))

    def save(self, folder: Path, name: str, setting: Setting) -> None:
        """Write `<name>.safetensors` and `<name>.json` in a folder; no pickle."""
        from safetensors.numpy import save_file

        arrays = {f"heads.{key}": value.numpy() for key, value in self.heads.state_dict().items()}
        arrays |= {f"{PREFIX}{key}": value for key, value in self.history.items()}
        arrays |= vars(self.calibration) | {"parameter": self.parameter}
        if self.out_of_fold is not None:
            arrays |= {f"{_OUT_OF_FOLD}{key}": value for key, value in vars(self.out_of_fold).items()}
        if self.errors:
            names = (each.name for each in fields(ResidualProcess))
            arrays |= {f"{_ERRORS}{name}": np.array([getattr(each, name) for each in self.errors]) for name in names}
        with replacing(Path(folder) / f"{name}.safetensors") as path:
            save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, path)
        content = {
            "method": self.method.spec(),
            **self._predictor(),
            "features": setting.Z.shape[2],
            "clusters": setting.cluster_id,
            "seeds": setting.seeds,
        }
        write_json(Path(folder) / f"{name}.json", content)

    def _predictor(self) -> dict[str, Any]:
        if isinstance(self.heads, Heads):
            return {"predictor": self.heads.predictor.spec()}
        if isinstance(self.heads, OracleForecast):
            return {}
        mixture = self.heads.mixture if isinstance(self.heads, Corrected) else self.heads
        forecasts = {"forecasts": {name: own.spec() for name, own in mixture.forecasters.items()}}
        if isinstance(self.heads, Corrected):
            heads = self.heads.bank.heads
            return forecasts | {"corrected_by": heads.predictor.spec(), "own_features": heads.features}
        return forecasts

    @staticmethod
    def load(folder: Path, name: str) -> Trained:
        """Read what `save` wrote.

        Raises:
            DataError: a file is missing, damaged or of another shape.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        register_members()
        content = read_json(Path(folder) / f"{name}.json")
        path = Path(folder) / f"{name}.safetensors"
        try:
            arrays = load_file(path)
            state = {k.removeprefix("heads."): torch.as_tensor(v) for k, v in arrays.items() if k.startswith("heads.")}
            heads = _restored(content, state)
            calibration = Calibration(**{each.name: arrays[each.name] for each in fields(Calibration)})
            left_out = {k.removeprefix(_OUT_OF_FOLD): v for k, v in arrays.items() if k.startswith(_OUT_OF_FOLD)}
            return Trained(
                Method.parse(content["method"]),
                heads,
                calibration,
                arrays["parameter"],
                curves_in(arrays),
                OutOfFold(**left_out) if left_out else None,
                _processes({k.removeprefix(_ERRORS): v for k, v in arrays.items() if k.startswith(_ERRORS)}),
            )
        except (SafetensorError, OSError, KeyError, IndexError, RuntimeError, TypeError) as error:
            raise DataError(f"{path}: not a complete model ({error}); run the finetune stage again") from None


_OUT_OF_FOLD = "out_of_fold."
_ERRORS = "errors."


def points_of(setting: Setting, s: int) -> TaskPoints:
    """All tasks of a setting as its s-th seed's process sees them."""
    return TaskPoints(setting.source_task, setting.family, setting.Z[s])


def error_processes(setting: Setting, left_out: OutOfFold) -> tuple[ResidualProcess, ...]:
    """Per seed, what out-of-fold errors of log time have in common; of copies of a task the first counts."""
    label = np.log(np.where(setting.allowed, setting.T, 1.0))
    result = []
    for s, known in enumerate(left_out.known):
        at = np.flatnonzero(known)
        at = at[np.unique(setting.source_task[at], return_index=True)[1]]
        error = left_out.log_time[s][:, at] - label[:, at]
        result.append(ResidualProcess.fit(error, setting.allowed[:, at], points_of(setting, s).take(at)))
    return tuple(result)


def _processes(arrays: dict[str, np.ndarray]) -> tuple[ResidualProcess, ...]:
    if not arrays:
        return ()
    family, near, task, length = (arrays[each.name] for each in fields(ResidualProcess))
    seeds, clusters = length.shape[0], family.shape[-1]
    if not family.shape == near.shape == task.shape == (seeds, clusters, clusters) or not (length > 0).all():
        raise KeyError("errors of another shape")
    return tuple(ResidualProcess(family[s], near[s], task[s], float(length[s])) for s in range(seeds))


@torch.no_grad()
def predict(learned: Learned, Z: Floats, operator_times: Floats | None) -> tuple[Floats, Floats]:
    """Predicted seconds and success probabilities, each (S, M, n); arguments as in `TaskInputs`."""
    inputs = TaskInputs.of(Z, operator_times)
    T, A = learned(inputs.Z) if isinstance(learned, Heads) else learned(inputs)
    return T.numpy(), A.numpy()


def _restored(content: dict[str, Any], state: dict[str, torch.Tensor]) -> Learned:
    if "forecasts" in content:
        forecasters = {k: Forecaster.parse(v) for k, v in content["forecasts"].items()}
        if "corrected_by" in content:
            predictor = Predictor.parse(content["corrected_by"])
            return Corrected.restored(forecasters, predictor, content["own_features"], state)
        return Mixture.restored(forecasters, state)
    if "predictor" not in content:
        return OracleForecast(state["T"], state["A"])
    seeds = [(seed,) for seed in content["seeds"]]
    heads = Heads(Predictor.parse(content["predictor"]), content["features"], len(content["clusters"]), seeds)
    heads.load_state_dict(state)
    return heads


def register_members() -> None:
    """Make every predictor, rule and method known by name."""
    for package in ("mfcp.predictors", "mfcp.rules", "mfcp.methods"):
        import_members(package)
