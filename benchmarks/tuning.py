"""A log as the study has it, on its settings for tuning and with other seeds; for benchmarks that compare methods."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from mfcp.data.log.validation import validate
from mfcp.data.pool.splits import draw_settings
from mfcp.data.sources import Source
from mfcp.evaluation.metrics import EvaluateSettings, evaluate
from mfcp.methods.base import Trained, register_members
from mfcp.methods.pretrain import Pretrained, pretrain
from mfcp.paper.held_out import of_clusters
from mfcp.paper.study_file import DEFAULT, StudyPlan
from mfcp.predictors.forecast import Forecaster
from mfcp.registry import import_members
from mfcp.settings import Settings
from mfcp.study.featurize import featurize
from mfcp.study.reference import solved_setting
from mfcp.study.setting import Setting
from mfcp.study.study_data import Study
from mfcp.study.study_pool import build_pool


class TuningLog:
    """The default platform, or a log, as the study has it, with other seeds."""

    def __init__(self, data: Path | None, seeds: tuple[int, ...], drawn: int = 0) -> None:
        """Settings are those for tuning, or so many drawn by another seed."""
        self.plan = StudyPlan.load(DEFAULT, Settings.load(Path("params.yaml")))
        import_members("mfcp.data.sources")
        register_members()
        source = {"kind": "folder", "path": str(data)} if data else self.plan.base.content["ingest"]["source"]
        name = data.resolve().name if data else "default"  # what is held out for good is for the study alone
        tables = Source.parse(source).read(self.plan.base.section("ingest").seed)
        if clusters := self.plan.clusters(name):
            others = of_clusters(tables, **clusters)
            tables = others if len(others["clusters"]) > 1 else tables  # a log of these alone is another one
        self.tables = validate(tables, max_bad_share=self.plan.base.section("validate").max_bad_share).tables
        own = Settings({"featurize": self.plan.featurizing(name)}, "study")
        featurizing = own.section("featurize")
        self.pool = build_pool(self.tables, self.plan.base.section("pool"), seed=featurizing.settings_seed)
        self.featurizing = featurizing.model_copy(update={"seeds": seeds, "settings": len(self.plan.study.tuning)})
        self.settings = self.plan.settings("comparison", None)
        self.usual = self.study(self.featurizing.train)
        self.names = self.plan.study.tuning
        if drawn:
            others = draw_settings(self.pool, drawn, featurizing.clusters, OTHER_SETTINGS)
            self.usual.settings.clear()
            self.usual.settings.update({f"other {name}": own for name, own in others.items()})
            self.names = tuple(self.usual.settings)

    def study(self, train: float) -> Study:
        """With so large a share of tasks to learn from, and as much else for validation as ever."""
        return featurize(self.tables, self.pool, self.featurizing.model_copy(update={"train": train}))

    def each(self, study: Study, **changes: Any) -> Iterable[Setting]:
        """The settings, with changed rounds."""
        rounds = self.settings.section("matching").model_copy(update=changes)
        price = self.settings.section("evaluate").shortfall_price
        return (solved_setting(study, name, rounds, price=price) for name in self.names)

    def start(self, setting: Setting, *forecasts: str) -> Pretrained:
        """Heads trained for log time, calibrated, and some forecasts."""
        settings = self.settings.section("pretrain")
        known = settings.forecasts | {name: Forecaster.parse(spec) for name, spec in OTHER_FORECASTS.items()}
        own = {name: known[name] for name in forecasts}
        return pretrain(setting, settings.model_copy(update={"losses": ("log_time",), "forecasts": own}))

    def judge(self, setting: Setting, trained: dict[str, Trained], rounds: int = 200) -> pd.DataFrame:
        """Metrics of test rounds."""
        settings = EvaluateSettings(rounds=rounds, shortfall_price=setting.price, margins=())
        return evaluate(setting, trained, settings)[0]


OTHER_FORECASTS = {  # beside those of the study, which had them once
    "trees": {"kind": "boosted_trees"},
    "nets_before": {"kind": "cross_fitted", "validation": "held_out"},
    "gp_before": {"kind": "gaussian_process", "clusters": "independent", "validation": "held_out"},
}
OTHER_SETTINGS = 77  # seed of settings that are neither for tuning nor for the page
