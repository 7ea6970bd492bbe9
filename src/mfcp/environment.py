"""What Python and the tools underneath are told before any of these is imported: to report nothing, to reach this
machine's own servers without a proxy, to use the same instructions everywhere, and to collect garbage seldom.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from pathlib import Path

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

# Libraries choose their kernels by the processor they find, and these sum in different orders. x86-64-v3 (AVX2, FMA)
# is what every server of the last ten years has.
SAME = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",  # MKL knows AVX2 on processors of Intel alone
    "NPY_ENABLE_CPU_FEATURES": "X86_V3",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3",
    "NUMBA_CPU_NAME": "haswell",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
COLLECT_AFTER = 10_000
"""New objects after which Python looks for cycles of garbage; 700 by itself."""

LOOPBACK = ("127.0.0.1", "localhost")
_NEEDED = {"abm", "avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "movbe", "popcnt", "sse4_2", "ssse3"}
_PROCESSOR = Path("/proc/cpuinfo")


def switch_off() -> None:
    """Switch every tool's telemetry off for this process and its children, unless the user has decided otherwise."""
    for name, value in OFF.items():
        os.environ.setdefault(name, value)


def without_proxy() -> None:
    """Have this process and its children reach servers of this machine directly where a proxy is set for others.

    `no_proxy` of many clusters names neither, and Prefect's and MLflow's clients would ask the proxy for 127.0.0.1.
    """
    if not any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") and os.environ[name] for name in os.environ):
        return
    spared = [name.strip() for name in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")]
    if "*" not in spared:
        spared = [name for name in spared if name and name not in LOOPBACK]
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join([*spared, *LOOPBACK])


def same_instructions() -> bool:
    """Hold numerical libraries to instructions that give the same bits on any x86-64 with AVX2; whether it has them.

    For this process and its children, before NumPy is imported. A variable that is set already stays as it is, and a
    processor without these instructions is left alone: what it computes differs from others in last bits.
    """
    if not has_same_instructions():
        return False
    for name, value in SAME.items():
        os.environ.setdefault(name, value)
    return True


def collect_seldom() -> None:
    """Have Python look for cycles of garbage less often, and not once more at the end: for a process that is our own.

    What packages make while they are imported stays, but the collector walks through it again and again. For Great
    Expectations and MLflow that is a third of the processor time of a short command.
    """
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # the system takes the memory back faster


def has_same_instructions() -> bool:
    """Whether this is Linux on an x86-64 processor with AVX2 and FMA."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return False
    try:
        with _PROCESSOR.open() as lines:
            return set(next((line for line in lines if line.startswith("flags")), "").split()) >= _NEEDED
    except OSError:
        return False
