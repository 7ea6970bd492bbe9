"""How the ports of a site are named."""

from __future__ import annotations

import pytest

from flows.service import MLFLOW_PORT, PREFECT_PORT, port_of
from mfcp.errors import SettingsError


def test_a_port_is_the_environments_or_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (MLFLOW_PORT, PREFECT_PORT):
        monkeypatch.delenv(name, raising=False)
    assert (port_of(PREFECT_PORT), port_of(MLFLOW_PORT)) == (4200, 5000)
    monkeypatch.setenv("MLFLOW_PORT", "5001")
    monkeypatch.setenv("PREFECT_PORT", "")
    assert (port_of(PREFECT_PORT), port_of(MLFLOW_PORT)) == (4200, 5001)


@pytest.mark.parametrize("text", ["ui", "0", "70000", "-1", "4200.0"])
def test_what_is_no_port_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PREFECT_PORT", text)
    with pytest.raises(SettingsError, match=f"PREFECT_PORT={text}: no port; give a number from 1 to 65535"):
        port_of(PREFECT_PORT)
