"""Telemetry is off, unless the user has decided otherwise."""

import os

from mfcp.telemetry import OFF, switch_off


def test_every_switch_is_set_but_those_that_the_user_has_set(monkeypatch):
    for name in OFF:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DVC_NO_ANALYTICS", "0")
    switch_off()
    assert {name: os.environ[name] for name in OFF} == OFF | {"DVC_NO_ANALYTICS": "0"}
