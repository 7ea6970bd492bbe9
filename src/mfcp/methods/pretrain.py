"""The predictors that every method starts from: mean squared error, and how far they are off out of fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.study import Setting
from mfcp.errors import DataError, SettingsError
from mfcp.files import read_json, replacing, write_json
from mfcp.predictors.base import Predictor
from mfcp.predictors.calibration import Calibration, calibrate, folds
from mfcp.predictors.heads import Heads, HeadTraining, Loss, fit
from mfcp.registry import FamilyField
from mfcp.threads import one_thread


class PretrainRules(BaseModel):
    """Section `pretrain` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    predictor: FamilyField[Predictor]
    training: HeadTraining
    losses: tuple[Loss, ...] = Field(("time", "log_time"), description="which errors to train for")
    calibrated: tuple[Loss, ...] = Field(("log_time",), description="losses whose out-of-fold spread is measured")
    folds: int = Field(5, ge=2, description="family folds of the calibration")


@dataclass(frozen=True)
class Pretrained:
    """Heads by loss, and their calibration where asked for; read-only to methods."""

    rules: PretrainRules
    heads: dict[Loss, Heads]
    calibration: dict[Loss, Calibration]
    history: dict[Loss, np.ndarray]

    def start(self, setting: Setting, loss: Loss) -> Heads:
        """A copy of the heads trained for `loss`, for a method to go on from.

        Raises:
            SettingsError: pretrain.losses lacks it.
        """
        if loss not in self.heads:
            raise SettingsError(f"pretrain.losses lacks '{loss}', which a method needs; add it")
        copy = new_heads(setting, self.rules.predictor)
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

    def save(self, folder: Path, name: str) -> None:
        """Write `<name>.safetensors` and `<name>.json` in a folder."""
        from safetensors.numpy import save_file

        arrays: dict[str, np.ndarray] = {}
        for loss, heads in self.heads.items():
            arrays |= {f"heads.{loss}.{key}": value.numpy() for key, value in heads.state_dict().items()}
            arrays[f"history.{loss}"] = self.history[loss]
        for loss, calibration in self.calibration.items():
            arrays |= {f"log_sd.{loss}": calibration.log_sd, f"a_sd.{loss}": calibration.a_sd}
        with replacing(Path(folder) / f"{name}.safetensors") as path:
            save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, path)
        rules = self.rules.model_dump(mode="json", exclude={"predictor"}) | {"predictor": self.rules.predictor.spec()}
        write_json(Path(folder) / f"{name}.json", rules)

    @staticmethod
    def load(folder: Path, name: str, setting: Setting) -> Pretrained:
        """Read what `save` wrote for a setting.

        Raises:
            DataError: a file is missing, damaged, or made for other features or seeds.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        rules = PretrainRules(**read_json(Path(folder) / f"{name}.json"))
        path = Path(folder) / f"{name}.safetensors"
        try:
            arrays = load_file(path)
            heads: dict[Loss, Heads] = {}
            for loss in rules.losses:
                heads[loss] = new_heads(setting, rules.predictor)
                prefix = f"heads.{loss}."
                own = {k.removeprefix(prefix): torch.as_tensor(v) for k, v in arrays.items() if k.startswith(prefix)}
                heads[loss].load_state_dict(own)
            calibration = {
                loss: Calibration(arrays[f"log_sd.{loss}"], arrays[f"a_sd.{loss}"]) for loss in rules.calibrated
            }
            history = {loss: arrays[f"history.{loss}"] for loss in rules.losses}
        except (SafetensorError, OSError, KeyError, RuntimeError) as error:
            raise DataError(f"{path}: not a complete model ({error}); run the pretrain stage again") from None
        return Pretrained(rules, heads, calibration, history)


def new_heads(setting: Setting, predictor: Predictor) -> Heads:
    """Fresh heads of a setting, one member per seed."""
    return Heads(predictor, setting.Z.shape[2], setting.clusters, [(seed,) for seed in setting.seeds])


@one_thread()
def pretrain(setting: Setting, rules: PretrainRules, *, advance: Callable[[], Any] = lambda: None) -> Pretrained:
    """Train the heads of a setting for every loss and measure their out-of-fold spread.

    Args:
        setting: labels, features and splits.
        rules: architecture, training, folds.
        advance: called once per epoch, `epochs(rules)` times in all.
    """
    Z, T, A = (torch.as_tensor(x) for x in (setting.Z, setting.T, setting.A))
    train, validation = (torch.as_tensor(setting.mask(part)) for part in ("train", "validation"))
    heads: dict[Loss, Heads] = {}
    history: dict[Loss, np.ndarray] = {}
    for loss in rules.losses:
        heads[loss] = new_heads(setting, rules.predictor)
        seen = fit(heads[loss], Z, T, A, train, validation, loss=loss, training=rules.training, advance=advance)
        history[loss] = seen.numpy()
    calibration = {loss: _cross_fit(setting, rules, loss, advance) for loss in rules.calibrated}
    return Pretrained(rules, heads, calibration, history)


def epochs(rules: PretrainRules) -> int:
    """How often `pretrain` calls `advance`."""
    return rules.training.epochs * (len(rules.losses) + len(rules.calibrated))


def _cross_fit(setting: Setting, rules: PretrainRules, loss: Loss, advance: Callable[[], Any]) -> Calibration:
    """Train one member per (seed, fold) without the fold's families and look at its errors there."""
    seeds, F = len(setting.seeds), rules.folds
    part = setting.split == 0
    fold = folds(setting.group, part, F, setting.seeds)
    left_out = np.stack([fold == f for f in range(F)], axis=1).reshape(seeds * F, 1, -1)
    known = setting.mask("train").repeat(F, axis=0)
    heads = Heads(
        rules.predictor, setting.Z.shape[2], setting.clusters, [(s, f + 1) for s in setting.seeds for f in range(F)]
    )
    Z = torch.as_tensor(setting.Z.repeat(F, axis=0))
    fit(
        heads,
        Z,
        torch.as_tensor(setting.T),
        torch.as_tensor(setting.A),
        torch.as_tensor(known & ~left_out),
        torch.as_tensor(setting.mask("validation").repeat(F, axis=0)),
        loss=loss,
        training=rules.training,
        advance=advance,
    )
    with torch.no_grad():
        T, A = heads(Z)

    def out_of_fold(values: torch.Tensor) -> np.ndarray:
        own = np.where(left_out, values.numpy(), 0.0)
        result: np.ndarray = own.reshape(seeds, F, *own.shape[1:]).sum(axis=1)
        return result

    return calibrate(out_of_fold(T.log()), out_of_fold(A), setting.T, setting.A, setting.runs, setting.mask("train"))
