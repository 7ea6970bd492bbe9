"""Predict execution time and reliability of deep-learning tasks per cluster, match them, and learn for the match."""

from __future__ import annotations

import importlib
from typing import Any

from mfcp.environment import switch_off, without_proxy

switch_off()  # both before any tool underneath is imported
without_proxy()

_PUBLIC = {
    "MatchingProblem": "mfcp.matching.problem",
    "Solution": "mfcp.matching.problem",
    "solve": "mfcp.matching.planning",
    "relaxed_matching": "mfcp.matching.relaxed.relaxed_plan",
    "DecisionLoss": "mfcp.methods.losses",
    "SurrogateLoss": "mfcp.methods.losses",
    "MatchingDataset": "mfcp.evaluation.dataset",
    "regret": "mfcp.evaluation.dataset",
    "makespan": "mfcp.matching.problem",
    "reliability": "mfcp.matching.problem",
    "read_tables": "mfcp.data.log.tables",
    "validate": "mfcp.data.log.validation",
    "TaskPool": "mfcp.data.pool.task_pool",
    "build_pool": "mfcp.study.study_pool",
    "Study": "mfcp.study.study_data",
    "Method": "mfcp.methods.base",
    "Rule": "mfcp.rules.base",
    "Predictor": "mfcp.predictors.base",
    "benchmark": "mfcp.evaluation.benchmark",
    "Settings": "mfcp.settings",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    """Public names load their module when first used, so that `import mfcp` costs nothing."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'mfcp' has no attribute '{name}'")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
