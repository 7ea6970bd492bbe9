"""Telemetry is off, unless the user has decided otherwise; libraries use the same instructions on every machine;
garbage is collected seldom.
"""

import os
import subprocess
import sys
import urllib.request

import pytest

from mfcp import environment
from mfcp.cli import make_parser
from mfcp.environment import (
    COLLECT_AFTER,
    OFF,
    SAME,
    has_same_instructions,
    same_instructions,
    switch_off,
    without_proxy,
)

TOLD = """
import json, numpy, scipy.linalg, torch
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from numba.core import config
from threadpoolctl import threadpool_info
print(json.dumps([
    torch.backends.cpu.get_cpu_capability(),
    sorted({library["architecture"] for library in threadpool_info() if library["internal_api"] == "openblas"}),
    [name for name in __cpu_dispatch__ if __cpu_features__[name]],
    config.CPU_NAME,
]))
"""


COMMAND = """
from mfcp.cli import main
try:
    main(["table", "none.json"])
except SystemExit:
    pass
"""


def test_every_switch_is_set_but_those_that_the_user_has_set(monkeypatch):
    for name in OFF:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DVC_NO_ANALYTICS", "0")
    switch_off()
    assert {name: os.environ[name] for name in OFF} == OFF | {"DVC_NO_ANALYTICS": "0"}


@pytest.mark.parametrize(
    ("told", "spared"),
    [
        ({}, None),
        ({"HTTP_PROXY": ""}, None),
        ({"NO_PROXY": "example.org"}, "example.org"),  # of no proxy
        ({"HTTP_PROXY": "http://proxy:3128"}, "127.0.0.1,localhost"),
        ({"all_proxy": "socks5://proxy"}, "127.0.0.1,localhost"),
        ({"https_proxy": "http://proxy", "NO_PROXY": " a.org, localhost ,"}, "a.org,127.0.0.1,localhost"),
        ({"http_proxy": "http://proxy", "no_proxy": "b.org", "NO_PROXY": "a.org"}, "b.org,127.0.0.1,localhost"),
        ({"http_proxy": "http://proxy", "no_proxy": "*"}, "*"),
    ],
)
def test_servers_of_this_machine_are_asked_without_a_proxy(told, spared, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    without_proxy()
    without_proxy()  # in a child
    assert (os.environ.get("no_proxy") or os.environ.get("NO_PROXY")) == spared
    if "proxy" in "".join(told.values()):
        assert urllib.request.proxy_bypass_environment("127.0.0.1:4200")


@pytest.mark.skipif(not has_same_instructions(), reason="not Linux on x86-64 with AVX2")
@pytest.mark.parametrize("start", ["import mfcp.stages", "import flows", COMMAND])
def test_libraries_of_stages_commands_and_flows_obey(start):
    """Which kernels they say to use. `ATEN_…` and its like are read when the library is loaded, not later."""
    clean = {name: value for name, value in os.environ.items() if name not in SAME}
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", start + TOLD], env=clean, capture_output=True, text=True
    )
    assert done.stdout == '["AVX2", ["Haswell"], ["X86_V3"], "haswell"]\n', done.stderr


@pytest.mark.skipif(not has_same_instructions(), reason="not Linux on x86-64 with AVX2")
def test_what_the_user_has_set_stays(monkeypatch):
    for name in SAME:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Sandybridge")
    assert same_instructions()
    assert {name: os.environ[name] for name in SAME} == SAME | {"OPENBLAS_CORETYPE": "Sandybridge"}


@pytest.mark.parametrize("flags", ["", "flags : fpu sse4_2 avx fma\n", "Features : asimd sve\n"])
def test_a_processor_without_these_instructions_is_left_alone(flags, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text("processor : 0\n" + flags)
    monkeypatch.setattr(environment, "_PROCESSOR", tmp_path / "cpuinfo")
    for name in SAME:
        monkeypatch.delenv(name, raising=False)
    assert not same_instructions()
    assert not set(SAME) & set(os.environ)
    monkeypatch.setattr(environment, "_PROCESSOR", tmp_path / "none")
    assert not has_same_instructions()


def test_a_profile_measures_what_the_machine_can_do():
    parser = make_parser()
    native = {line[0]: getattr(parser.parse_args(line), "native", False) for line in (["profile"], ["init", "here"])}
    assert native == {"profile": True, "init": False}


@pytest.mark.parametrize("start", ["import mfcp.stages", "import flows", COMMAND])
def test_garbage_is_collected_seldom_and_not_at_the_end(start):
    first = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"  # runs last
    last = "\nimport gc; print(gc.get_threshold()[0], gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", first + start + last], capture_output=True, text=True)
    assert done.stdout == f"{COLLECT_AFTER} 0\nTrue\n", done.stderr
