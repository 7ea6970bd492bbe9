"""The machine one stands on: what tells it from others, and figures of its devices, measured."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.threads import cores

if TYPE_CHECKING:
    import torch

_FIGURES = "measured: best of repeated matrix products and copies"
_SIDE = {"cpu": 1024, "cuda": 8192}  # of square matrices: large enough for the highest rate, milliseconds each
_COPIED = {"cpu": 1 << 27, "cuda": 1 << 30}  # bytes, beyond any cache
_SECONDS = 0.3  # of each measurement


def places(device: str) -> list[dict[str, Any]]:
    """The devices that `cpu`, `cuda` or `auto` means here: each GPU, or the CPU.

    Returns:
        device, accelerator and memory_bytes of each, and its fingerprint's columns: all that a step's time may hang
        on and that tells nobody's name.
    """
    import torch

    software = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpu_model": _cpu_model(),
        "cores": cores(),
        "blas": _blas(torch.__config__.show()),
    }
    if device == "cpu" or not torch.cuda.is_available():
        cpu = {"device": "cpu", "accelerator": _cpu_model(), "memory_bytes": _memory(), "driver": None}
        return [] if device == "cuda" else [{**cpu, **software}]
    found = []
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        version = f"{_driver_here()}, CUDA {torch.version.cuda}"
        row = {"device": f"cuda:{index}", "accelerator": gpu.name, "memory_bytes": gpu.total_memory, "driver": version}
        found.append({**row, **software})
    return found


def cluster(place: dict[str, Any], threads: int | None, memory: int | None) -> dict[str, Any]:
    """The row of table clusters for a device with so many CPU threads and so much memory, figures left out.

    Its name holds a hash of the fingerprint: another machine, or another version, is another cluster.
    """
    fingerprint = {key: value for key, value in place.items() if key != "device"}
    told_by = {
        **fingerprint,
        "memory_bytes": round(place["memory_bytes"] / 2**30),
    }  # kernels take a little more or less
    digest = hashlib.sha256(json.dumps(told_by, sort_keys=True).encode()).hexdigest()[:8]
    parts = [place["device"].replace(":", ""), digest]
    parts += [f"t{threads}"] if threads else []
    parts += [f"m{memory}"] if memory else []
    return {
        "cluster_id": "-".join(parts),
        "accelerator_count": 1,
        "interconnect_bandwidth": None,
        "software": f"torch {place['torch']}, python {place['python']}, eager",
        **fingerprint,
        "memory_bytes": memory or place["memory_bytes"],
        "threads": threads,
        "figures": _FIGURES,
    }


def figures(device: str, threads: int | None) -> dict[str, float]:
    """Rates that a device reaches: `peak_flops` of the faster of FP32 and BF16, `peak_flops_fp32`, `memory_bandwidth`.

    A copy counts what it reads and what it writes.
    """
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    where = torch.device(device)
    side, size = _SIDE[where.type], _COPIED[where.type]
    rates = {}
    for dtype in (torch.float32, torch.bfloat16):
        left, right = (torch.randn(side, side, device=where).to(dtype) for _ in range(2))
        out = torch.empty_like(left)
        rates[dtype] = 2 * side**3 / _least_seconds(partial(torch.mm, left, right, out=out), where)
    source = torch.ones(size // 4, device=where)
    target = torch.ones_like(source)
    return {
        "peak_flops": max(rates.values()),
        "peak_flops_fp32": rates[torch.float32],
        "memory_bandwidth": 2 * size / _least_seconds(partial(target.copy_, source), where),
    }


def _least_seconds(action: Callable[[], object], device: torch.device) -> float:
    import torch

    taken: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(taken) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - start)
    return min(taken)


def _cpu_model() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> int:
    """Bytes of memory that processes here may use: the machine's, or the control group's if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # no such file, or "max"
            total = min(total, int(Path(path).read_text()))
    return total


def _blas(config: str) -> str:
    """Linear algebra and vector instructions that PyTorch was built with, of what it says about itself."""
    signs = ("Intel(R) oneAPI Math Kernel", "Intel(R) MKL-DNN", "OpenBLAS", "Accelerate", "CPU capability")
    lines = [line.strip(" -") for line in config.splitlines() if any(sign in line for sign in signs)]
    return "; ".join(line for line in lines if "Build settings" not in line)


def driver(said: str) -> str:
    """The version in what NVIDIA's kernel module says of itself, which names it before or after the architecture."""
    version = re.search(r"\b\d+\.\d+(\.\d+)?\b", said)
    return f"driver {version[0]}" if version else "driver unknown"


def _driver_here() -> str:
    with suppress(OSError):
        return driver(Path("/proc/driver/nvidia/version").read_text())
    return driver("")
