"""No tool underneath reports anything to anyone: one list, set before the tool is imported."""

from __future__ import annotations

import os

# MLflow accepts only the word "true"; the Makefile exports the same list for the tools' own commands.
OFF = {
    "DO_NOT_TRACK": "true",
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def switch_off() -> None:
    """Switch every tool's telemetry off for this process and its children, unless the user has decided otherwise."""
    for name, value in OFF.items():
        os.environ.setdefault(name, value)
