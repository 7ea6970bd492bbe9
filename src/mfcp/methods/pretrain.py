"""The predictors that every method starts from, trained for their own error, and how far they are off out of fold."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Bools, Floats, Ints
from mfcp.border.json_text import read_json
from mfcp.errors import DataError, SettingsError
from mfcp.files import replacing, write_json
from mfcp.folds import training_folds
from mfcp.predictors.base import Predictor
from mfcp.predictors.calibration import Calibration, calibrate
from mfcp.predictors.cross_fitted import CrossFitted
from mfcp.predictors.forecast import Forecast, Forecaster, Mixture, OutOfFold, TrainingData, stacking_weights
from mfcp.predictors.heads import Heads, HeadTraining, Loss, fit
from mfcp.registry import FamilyField
from mfcp.study.setting import PARTS, Setting
from mfcp.study.study_data import Study
from mfcp.threads import one_thread

Weights = Literal["out_of_fold", "equal"]
Validation = Literal["learned", "held_out"]
_FEW = 4  # tasks a fold below which leaving out one family at a time costs nothing and learns from more


class PretrainSettings(BaseModel):
    """Section `pretrain` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    predictor: FamilyField[Predictor]
    training: HeadTraining
    losses: tuple[Loss, ...] = Field(("time", "log_time"), description="which errors to train for")
    calibrated: tuple[Loss, ...] = Field(("log_time",), description="losses whose out-of-fold spread is measured")
    folds: int = Field(5, ge=2, description="family folds of the calibration")
    forecasts: dict[str, FamilyField[Forecaster]] = Field({}, description="name → predictors that stay as they are")


@dataclass(frozen=True)
class Pretrained:
    """Heads by loss with their calibration where asked for, and forecasts by name; read-only to methods."""

    settings: PretrainSettings
    heads: dict[Loss, Heads]
    calibration: dict[Loss, Calibration]
    history: dict[Loss, np.ndarray]
    forecasts: dict[str, Forecast] = field(default_factory=dict)

    def start(self, setting: Setting, loss: Loss) -> Heads:
        """A copy of the heads trained for `loss`, for a method to go on from.

        Raises:
            SettingsError: pretrain.losses lacks it.
        """
        if loss not in self.heads:
            raise SettingsError(f"pretrain.losses lacks '{loss}', which a method needs; add it")
        copy = new_heads(setting, self.settings.predictor)
        copy.load_state_dict(self.heads[loss].state_dict())
        return copy

    def spread(self, loss: Loss) -> Calibration:
        """The calibration of the heads trained for `loss`.

        Raises:
            SettingsError: pretrain.calibrated lacks it.
        """
        if loss not in self.calibration:
            raise SettingsError(f"pretrain.calibrated lacks '{loss}', which a method's rule needs; add it")
        return self.calibration[loss]

    def mixture(self, setting: Setting, names: tuple[str, ...], weights: Weights) -> tuple[Mixture, OutOfFold]:
        """The weighted mean of the named forecasts, and what it says out of fold.

        Args:
            setting: whose labels choose the weights.
            names: of forecasts.
            weights: "equal", or "out_of_fold": those of least squared error (`stacking_weights`) of log time and of
                reliability, each about its cluster's mean.

        Raises:
            SettingsError: pretrain.forecasts lacks one.
        """
        own = self._named(names)
        parts = [forecast.out_of_fold for forecast in own.values()]
        both = np.full((2, len(setting.seeds), len(parts)), 1 / len(parts))
        if weights == "out_of_fold" and len(parts) > 1:
            known = np.logical_and.reduce([part.known for part in parts])[:, None] & setting.allowed
            log_time = np.log(np.where(setting.allowed, setting.T, 1.0))
            for s, mask in enumerate(known):
                both[0, s] = _weights(np.stack([part.log_time[s] for part in parts]), log_time, mask)
                both[1, s] = _weights(np.stack([part.reliability[s] for part in parts]), setting.A, mask)
        models = {name: forecast.model for name, forecast in own.items()}
        mixture = Mixture({name: self.settings.forecasts[name] for name in names}, models, *map(torch.as_tensor, both))
        return mixture, OutOfFold.weighted(parts, *both)

    def copied(self, setting: Setting, name: str) -> Mixture:
        """The named forecast alone, for a method to go on from.

        Raises:
            SettingsError: pretrain.forecasts lacks it.
        """
        return deepcopy(self.mixture(setting, (name,), "equal")[0])

    def fold(self, setting: Setting, name: str) -> Ints:
        """(S, n) fold of each task that the named forecast learned from, whole families; -1 for other tasks."""
        return _folds(setting, self.settings.folds, self.settings.forecasts[name].validation)

    def _named(self, names: tuple[str, ...]) -> dict[str, Forecast]:
        missing = [name for name in names if name not in self.forecasts]
        if missing:
            known = ", ".join(self.forecasts) or "none"
            raise SettingsError(f"pretrain.forecasts lacks '{missing[0]}', which a method needs; it has {known}")
        return {name: self.forecasts[name] for name in names}

    def save(self, folder: Path, name: str) -> None:
        """Write `<name>.safetensors` and `<name>.json` in a folder."""
        from safetensors.numpy import save_file

        arrays: dict[str, np.ndarray] = {}
        for loss, heads in self.heads.items():
            arrays |= {f"heads.{loss}.{key}": value.numpy() for key, value in heads.state_dict().items()}
            arrays[f"history.{loss}"] = self.history[loss]
        for loss, calibration in self.calibration.items():
            arrays |= {f"{key}.{loss}": value for key, value in vars(calibration).items()}
        for label, forecast in self.forecasts.items():
            arrays |= {f"forecast.{label}.{key}": value.numpy() for key, value in forecast.model.state_dict().items()}
            arrays |= {f"{key}.{label}": value for key, value in vars(forecast.out_of_fold).items()}
        with replacing(Path(folder) / f"{name}.safetensors") as path:
            save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, path)
        settings = self.settings.model_dump(mode="json", exclude={"predictor", "forecasts"})
        settings["predictor"] = self.settings.predictor.spec()
        settings["forecasts"] = {label: forecaster.spec() for label, forecaster in self.settings.forecasts.items()}
        write_json(Path(folder) / f"{name}.json", settings)

    @staticmethod
    def load(folder: Path, name: str, setting: Setting) -> Pretrained:
        """Read what `save` wrote for a setting.

        Raises:
            DataError: a file is missing, damaged, or made for other features or seeds.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        settings = PretrainSettings(**read_json(Path(folder) / f"{name}.json"))
        path = Path(folder) / f"{name}.safetensors"
        try:
            arrays = load_file(path)
            heads: dict[Loss, Heads] = {}
            for loss in settings.losses:
                heads[loss] = new_heads(setting, settings.predictor)
                prefix = f"heads.{loss}."
                own = {k.removeprefix(prefix): torch.as_tensor(v) for k, v in arrays.items() if k.startswith(prefix)}
                heads[loss].load_state_dict(own)
            calibration = {
                loss: Calibration(**{each.name: arrays[f"{each.name}.{loss}"] for each in fields(Calibration)})
                for loss in settings.calibrated
            }
            history = {loss: arrays[f"history.{loss}"] for loss in settings.losses}
            forecasts = {}
            for label, forecaster in settings.forecasts.items():
                prefix = f"forecast.{label}."
                own = {k.removeprefix(prefix): torch.as_tensor(v) for k, v in arrays.items() if k.startswith(prefix)}
                parts = {each.name: arrays[f"{each.name}.{label}"] for each in fields(OutOfFold)}
                forecasts[label] = Forecast(forecaster.restored(own), OutOfFold(**parts))
        except (SafetensorError, OSError, KeyError, RuntimeError) as error:
            raise DataError(f"{path}: not a complete model ({error}); run the pretrain stage again") from None
        return Pretrained(settings, heads, calibration, history, forecasts)


def only(settings: PretrainSettings, loss: Loss | None, forecasts: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields `losses`, `calibrated` and `forecasts` for a method that needs heads of a loss, or these forecasts."""
    losses = () if forecasts or loss is None else (loss,)
    own = {name: forecaster for name, forecaster in settings.forecasts.items() if name in forecasts}
    return {"losses": losses, "calibrated": losses, "forecasts": own}


def new_heads(setting: Setting, predictor: Predictor) -> Heads:
    """Fresh heads of a setting, one member per seed."""
    return Heads(predictor, setting.Z.shape[2], setting.clusters, [(seed,) for seed in setting.seeds])


@one_thread()
def pretrain(setting: Setting, settings: PretrainSettings, *, advance: Callable[[], Any] = lambda: None) -> Pretrained:
    """Train the heads of a setting for every loss, measure their out-of-fold spread, and fit the forecasts.

    Heads stop on validation labels, on which methods go on to choose checkpoints. Forecasts learn these labels, too;
    where a choice needs them, it is made on out-of-fold predictions.

    Args:
        setting: labels, features and splits.
        settings: architecture, training, folds.
        advance: called once per epoch, `epochs(settings)` times in all.
    """
    Z, T, A = (torch.as_tensor(x) for x in (setting.Z, setting.T, setting.A))
    train, validation = (torch.as_tensor(setting.mask(part)) for part in ("train", "validation"))
    heads: dict[Loss, Heads] = {}
    history: dict[Loss, np.ndarray] = {}
    for loss in settings.losses:
        heads[loss] = new_heads(setting, settings.predictor)
        seen = fit(heads[loss], Z, T, A, train, validation, loss=loss, training=settings.training, advance=advance)
        history[loss] = seen.numpy()
    data = {kind: training_data(setting, settings.folds, kind) for kind in ("learned", "held_out")}
    fitted = {own: data[own.validation].fitted(own, advance=advance) for own in _forecasters(settings)}
    calibration = {}
    for loss in settings.calibrated:
        calibration[loss] = spread_of(setting, fitted[_members(settings, loss)].out_of_fold)
    forecasts = {label: fitted[forecaster] for label, forecaster in settings.forecasts.items()}
    return Pretrained(settings, heads, calibration, history, forecasts)


def pretrain_setting(
    study: Study, name: str, matching: Any, settings: PretrainSettings, folder: Path, advance: Callable[[], Any]
) -> None:
    """Do `pretrain` for a setting of a study and save what comes of it in a folder."""
    pretrain(study.setting(name, matching, price=0.0), settings, advance=advance).save(folder, name)


def _members(settings: PretrainSettings, loss: Loss) -> CrossFitted:
    """The heads of a loss, cross-fitted: how far they are off on families that they did not see."""
    return CrossFitted(predictor=settings.predictor, training=settings.training, loss=loss)


def _forecasters(settings: PretrainSettings) -> dict[Forecaster, None]:
    """What is fitted, in order; members that calibrate heads and stand under `forecasts` too are so once."""
    asked = [*(_members(settings, loss) for loss in settings.calibrated), *settings.forecasts.values()]
    return dict.fromkeys(own for forecaster in asked for own in (*forecaster.needs(), forecaster))


def epochs(settings: PretrainSettings) -> int:
    """How often `pretrain` calls `advance`."""
    own = settings.training.epochs * len(settings.losses)
    return own + sum(forecaster.epochs() for forecaster in _forecasters(settings))


def training_data(setting: Setting, count: int, validation: Validation = "held_out") -> TrainingData:
    """What forecasts may learn of a setting, with `count` folds of families; see `Forecaster.validation`."""
    learns = validation == "learned"
    train, stop = setting.mask("train"), setting.mask("validation")
    return TrainingData(
        Z=setting.Z,
        T=setting.T,
        A=setting.A,
        runs=setting.runs,
        train=train | stop if learns else train,
        validation=stop & (not learns),
        fold=_folds(setting, count, validation),
        seeds=setting.seeds,
        operator_times=setting.operator_times,
    )


def _folds(setting: Setting, count: int, validation: Validation) -> Ints:
    """(S, n) fold of each task to learn from, -1 for others; with few tasks, every family is a fold of its own."""
    parts = ("train", "validation") if validation == "learned" else ("train",)
    learned = np.isin(setting.split, [PARTS[part] for part in parts])
    if learned.sum(axis=1).max() < _FEW * count:
        count = max(len(np.unique(setting.group[own])) for own in learned)
    return training_folds(setting.group, learned, count, setting.seeds)


def _weights(predictions: Floats, labels: Floats, known: Bools) -> Floats:
    """(K,) stacking weights of predictions (K, M, n) for labels (M, n), each about its mean over a cluster's tasks."""
    count = np.maximum(known.sum(1), 1)

    def centred(values: Floats) -> Floats:
        values = np.where(known, values, 0.0)
        result: Floats = (values - (values.sum(-1) / count)[..., None])[..., known]
        return result

    return stacking_weights(centred(predictions), centred(labels))


def spread_of(setting: Setting, predicted: OutOfFold) -> Calibration:
    """The spread of out-of-fold predictions about the labels of their tasks."""
    known = predicted.known[:, None] & setting.allowed
    return calibrate(predicted.log_time, predicted.reliability, setting.T, setting.A, setting.runs, known)
