"""Predicted and measured times of one comparison, and what a table says of them; for families.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import yaml

from mfcp.arrays import Floats, Ints, Texts

DRAWS = 2000
_WORST = 3  # groups that are named
UNNAMED = "one that is held out"


@dataclass
class Part:
    """Predictions of n runs by several rows of the table, all from the same folds.

    Attributes:
        column, title: where it stands.
        log_seconds: (n,) measured.
        log_samples: (n,) of the samples of a run, which R² is without.
        stratum: (n,) means are over the runs of each, and then over these: clusters.
        group: (n,) what the bootstrap draws: families or devices.
        ours: rows that are ours.
        rows: (S, n) log seconds by name, nan where a row has no answer; S draws of folds.
        cost: seconds of training and ms an answer, by name, where they were taken.
        profiled: seconds of profiling of a new task on a new cluster, by name.
    """

    column: str
    title: str
    log_seconds: Floats
    log_samples: Floats
    stratum: Ints
    group: Texts
    ours: tuple[str, ...]
    rows: dict[str, Floats] = field(default_factory=dict)
    cost: dict[str, tuple[float, float]] = field(default_factory=dict)
    profiled: dict[str, float] = field(default_factory=dict)

    def judged(self) -> dict[str, Any]:
        """JSON values by row: MAPE, its interval and its median in per cent, R², the groups that are off most, and the
        ratio to the best row of ours.

        A row without any answer is left out.
        """
        answered = {name: values for name, values in self.rows.items() if np.isfinite(values).any()}
        errors = {name: np.abs(np.expm1(values - self.log_seconds)) for name, values in answered.items()}
        known = {name: np.isfinite(error) for name, error in errors.items()}
        best = min((name for name in self.ours if name in errors), key=lambda name: self._mean(errors[name]))
        rows = {}
        for name, error in errors.items():
            both = known[name] & known[best]
            rows[name] = {
                "n": int(known[name].any(axis=0).sum()),
                "mape": 100 * self._mean(error),
                "mape_interval": [100 * edge for edge in _middle(self._means(error)[0, 1:])],
                "median": 100 * float(np.nanmedian(error)),
                "r2": self._r2(self.rows[name], self.log_samples),
                "r2_steps": self._r2(self.rows[name], np.zeros_like(self.log_samples)),
                "worst": self._worst(answered[name]) if name in self.ours else [],
                "ratio": self._ratio(np.where(both, error, np.nan), np.where(both, errors[best], np.nan)),
                "cost": self.cost.get(name),
                "profiled_s": self.profiled.get(name),
            }
        return {"title": self.title, "best": best, "ours": list(self.ours), "n": len(self.log_seconds),
                "groups": len(set(self.group)), "draws": len(next(iter(answered.values()))), "rows": rows}  # fmt: skip

    def _worst(self, predicted: Floats) -> list[list[Any]]:
        """The groups with most of the squared error of log time, and their shares."""
        names, at = np.unique(self.group, return_inverse=True)
        square = np.nansum((predicted - self.log_seconds) ** 2, axis=0)
        share = np.bincount(at, square, len(names)) / max(float(square.sum()), 1e-300)
        held_out = unnamed()
        return [
            [UNNAMED if str(names[k]).lower() in held_out else str(names[k]), float(share[k])]
            for k in np.argsort(-share, kind="stable")[:_WORST]
        ]

    def _mean(self, error: Floats) -> float:
        means = [
            np.nanmean(own) for k in np.unique(self.stratum) if np.isfinite(own := error[:, self.stratum == k]).any()
        ]
        return float(np.mean(means))

    def _r2(self, predicted: Floats, scale: Floats) -> float:
        found = []
        for k in np.unique(self.stratum):
            at = self.stratum == k
            known = np.isfinite(predicted[:, at])
            truth = np.broadcast_to(self.log_seconds[at], known.shape)
            if known.any() and (spread := (truth - scale[at])[known].var()) > 1e-12:
                found.append(1 - ((predicted[:, at] - truth)[known] ** 2).mean() / spread)
        return float(np.mean(found)) if found else float("nan")

    def _ratio(self, model: Floats, peer: Floats) -> list[float]:
        """Ratio of mean errors, and what 95 % of the draws of groups give; groups count by their runs."""
        with np.errstate(invalid="ignore", divide="ignore"):
            above, below = self._means(model, peer)
            ratio = above / below
        return [float(ratio[0]), *_middle(ratio[1:])]

    def _means(self, *errors: Floats) -> Floats:
        """(len(errors), 1 + DRAWS) means over strata of what the first one knows: of all groups, and of each draw."""
        names, of = np.unique(self.group, return_inverse=True)
        strata, stratum = np.unique(self.stratum, return_inverse=True)
        size = (len(names), len(strata))
        total = np.zeros((len(errors), *size))
        count = np.zeros(size)
        known = np.isfinite(errors[0])
        for k, error in enumerate(errors):
            np.add.at(total[k], (of, stratum), np.where(known, error, 0.0).sum(axis=0))
        np.add.at(count, (of, stratum), known.sum(axis=0))
        used = count.sum(axis=0) > 0
        total, count = total[:, :, used], count[:, used]
        rng = np.random.default_rng(0)
        drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), DRAWS)
        weight = np.concatenate([np.ones((1, len(names))), drawn])
        with np.errstate(invalid="ignore", divide="ignore"):
            there = weight @ count > 0  # a draw without any run of a stratum has no mean of it
            sums = [np.where(there, (weight @ own) / (weight @ count), 0.0).sum(axis=1) for own in total]
            return np.stack(sums) / there.sum(axis=1)


@cache
def unnamed() -> frozenset[str]:
    """Groups that no document names, in small letters: what studies hold out for good."""
    listed = yaml.safe_load(resources.files("mfcp.paper").joinpath("held_out.yaml").read_text(encoding="utf-8"))
    return frozenset(name.lower() for log in listed.values() for own in log.values() for name in own)


def _middle(drawn: Floats) -> list[float]:
    """Between which 95 % of the draws lie."""
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return [float(low), float(high)]


def records(column: str, judged: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows for programs of one comparison, MAPE as a share; what an answer costs is column F.

    Args:
        column: where it stands; its first letter is the column, all of it the `part`.
        judged: of `Part.judged`.
    """
    found = []
    for name, row in judged["rows"].items():
        low, high = row["mape_interval"]
        ratio = row["ratio"] or (None, None, None)
        training, answer = row["cost"] or (None, None)
        for letter, metric, value, least, most in (
            (column[0], "mape", row["mape"] / 100, low / 100, high / 100),
            (column[0], "median_ape", row["median"] / 100, None, None),
            (column[0], "r2", row["r2"], None, None),
            (column[0], "r2_steps", row["r2_steps"], None, None),
            (column[0], "mape_over_best_of_ours", *ratio),
            ("F", "profiled_s", row["profiled_s"], None, None),
            ("F", "training_s", training, None, None),
            ("F", "answer_ms", answer, None, None),
        ):
            if value is not None:
                found.append({
                    "column": letter, "part": column, "row": name, "metric": metric, "value": value, "low": least,
                    "high": most, "n": row["n"],
                })  # fmt: skip
    return found
