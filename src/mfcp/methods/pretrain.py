"""The predictors that every method starts from, trained for their own error, and how far they are off out of fold."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError, SettingsError
from mfcp.files import read_json, replacing, write_json
from mfcp.folds import training_folds
from mfcp.predictors.base import Predictor
from mfcp.predictors.calibration import Calibration, calibrate
from mfcp.predictors.cross_fitted import CrossFitted
from mfcp.predictors.forecast import Forecast, Forecaster, Mixture, TrainingData
from mfcp.predictors.heads import Heads, HeadTraining, Loss, fit
from mfcp.registry import FamilyField
from mfcp.study.setting import PARTS, Setting
from mfcp.threads import one_thread


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

    def mixture(self, names: tuple[str, ...]) -> Mixture:
        """The mean of the named forecasts.

        Raises:
            SettingsError: pretrain.forecasts lacks one.
        """
        own = self._named(names)
        models = {name: forecast.model for name, forecast in own.items()}
        return Mixture({name: self.settings.forecasts[name] for name in names}, models)

    def copied(self, name: str) -> Mixture:
        """The named forecast alone, for a method to go on from.

        Raises:
            SettingsError: pretrain.forecasts lacks it.
        """
        return deepcopy(self.mixture((name,)))

    def fold(self, setting: Setting) -> Ints:
        """(S, n) fold of each training task that was left out together, whole families; -1 for other tasks."""
        return _left_out(setting, self.settings.folds)

    def left_out(self, names: tuple[str, ...]) -> tuple[Floats, Floats]:
        """(S, M, n) log times and probabilities of the mixture for training tasks, by parts that did not see them."""
        own = self._named(names).values()
        return np.mean([x.log_time for x in own], axis=0), np.mean([x.reliability for x in own], axis=0)

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
            arrays |= {f"log_sd.{loss}": calibration.log_sd, f"a_sd.{loss}": calibration.a_sd}
        for label, forecast in self.forecasts.items():
            arrays |= {f"forecast.{label}.{key}": value.numpy() for key, value in forecast.model.state_dict().items()}
            arrays |= {f"log_time.{label}": forecast.log_time, f"reliability.{label}": forecast.reliability}
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
                loss: Calibration(arrays[f"log_sd.{loss}"], arrays[f"a_sd.{loss}"]) for loss in settings.calibrated
            }
            history = {loss: arrays[f"history.{loss}"] for loss in settings.losses}
            forecasts = {}
            for label, forecaster in settings.forecasts.items():
                prefix = f"forecast.{label}."
                own = {k.removeprefix(prefix): torch.as_tensor(v) for k, v in arrays.items() if k.startswith(prefix)}
                forecasts[label] = Forecast(
                    forecaster.restored(own), arrays[f"log_time.{label}"], arrays[f"reliability.{label}"]
                )
        except (SafetensorError, OSError, KeyError, RuntimeError) as error:
            raise DataError(f"{path}: not a complete model ({error}); run the pretrain stage again") from None
        return Pretrained(settings, heads, calibration, history, forecasts)


def new_heads(setting: Setting, predictor: Predictor) -> Heads:
    """Fresh heads of a setting, one member per seed."""
    return Heads(predictor, setting.Z.shape[2], setting.clusters, [(seed,) for seed in setting.seeds])


@one_thread()
def pretrain(setting: Setting, settings: PretrainSettings, *, advance: Callable[[], Any] = lambda: None) -> Pretrained:
    """Train the heads of a setting for every loss, measure their out-of-fold spread, and fit the forecasts.

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
    known = training_data(setting, settings.folds)
    fitted = {forecaster: forecaster.fit(known, advance=advance) for forecaster in _forecasters(settings)}
    calibration = {}
    for loss in settings.calibrated:
        forecast = fitted[_members(settings, loss)]
        calibration[loss] = spread_of(setting, forecast.log_time, forecast.reliability)
    forecasts = {label: fitted[forecaster] for label, forecaster in settings.forecasts.items()}
    return Pretrained(settings, heads, calibration, history, forecasts)


def _members(settings: PretrainSettings, loss: Loss) -> CrossFitted:
    """The heads of a loss, cross-fitted: how far they are off on families that they did not see."""
    return CrossFitted(predictor=settings.predictor, training=settings.training, loss=loss)


def _forecasters(settings: PretrainSettings) -> dict[Forecaster, None]:
    """What is fitted, in order; members that calibrate heads and stand under `forecasts` too are so once."""
    return dict.fromkeys([*(_members(settings, loss) for loss in settings.calibrated), *settings.forecasts.values()])


def epochs(settings: PretrainSettings) -> int:
    """How often `pretrain` calls `advance`."""
    own = settings.training.epochs * len(settings.losses)
    return own + sum(forecaster.epochs() for forecaster in _forecasters(settings))


def training_data(setting: Setting, count: int) -> TrainingData:
    """What forecasts may learn of a setting, with `count` folds of training families."""
    return TrainingData(
        Z=setting.Z,
        T=setting.T,
        A=setting.A,
        runs=setting.runs,
        train=setting.mask("train"),
        validation=setting.mask("validation"),
        fold=_left_out(setting, count),
        seeds=setting.seeds,
    )


def _left_out(setting: Setting, count: int) -> Ints:
    return training_folds(setting.group, setting.split == PARTS["train"], count, setting.seeds)


def spread_of(setting: Setting, log_time: Floats, reliability: Floats) -> Calibration:
    """The spread of out-of-fold predictions (S, M, n) about the labels of training tasks."""
    return calibrate(log_time, reliability, setting.T, setting.A, setting.runs, setting.mask("train"))
