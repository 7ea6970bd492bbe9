"""Whether stages give the bytes of dvc.lock with other threads and on other processors.

    python benchmarks/same_bytes.py [--stage featurize --stage pretrain] [--qemu qemu-x86_64 --cpu Haswell]

Needs the outputs of `make run` in this checkout. Each stage runs alone, in a folder of its own, on the inputs that lie
here, once per way: on one core; on all; on processors emulated by QEMU (`qemu-user` 10 of Debian; earlier versions
compute AVX2 wrongly), some fifteen times slower. "another kernel" is the control: the same stage with libraries told to
use other instructions than `mfcp` asks for, whose outputs are expected to differ where a stage computes. Exit code 1
where another output differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mfcp.border.bounds import Limits
from mfcp.border.yaml_text import read_yaml
from mfcp.environment import SAME
from mfcp.errors import DataError
from mfcp.threads import cores

STAGES = ("ingest", "validate", "featurize", "pretrain", "finetune@tsm", "finetune@mfcp_ad", "evaluate", "release")
CONTROL = "another kernel"
OTHER = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "AVX2",
    "NPY_ENABLE_CPU_FEATURES": "X86_V2",
    "OPENBLAS_CORETYPE": "Sandybridge",
}


def digest(path: Path) -> str:
    """MD5 of a file or folder as DVC writes it into dvc.lock."""
    if path.is_file():
        return hashlib.md5(path.read_bytes()).hexdigest()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    listed = [{"md5": digest(file), "relpath": file.relative_to(path).as_posix()} for file in files]
    text = json.dumps(sorted(listed, key=lambda entry: entry["relpath"]), sort_keys=True)
    return f"{hashlib.md5(text.encode()).hexdigest()}.dir"


def locked_stages(path: Path) -> dict[str, Any]:
    """The stages of a lock.

    Raises:
        DataError: no such file, or one that lacks a stage.
    """
    content = read_yaml(path, Limits(), expected="what `dvc repro` writes")
    stages = content.get("stages") if isinstance(content, dict) else None
    if not isinstance(stages, dict) or not all(isinstance(stages.get(name), dict) for name in STAGES):
        raise DataError(f"{path}: expected the stages {', '.join(STAGES)}")
    return stages


def run(stage: dict[str, Any], prefix: list[str], variables: dict[str, str]) -> tuple[list[str], float]:
    """Outputs that differ from the lock, and seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("src", "gx", "params.yaml", "data"):
            copy = shutil.copytree if Path(part).is_dir() else shutil.copy
            copy(part, folder / part)
        for out in stage["outs"]:
            path = folder / out["path"]
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        command = stage["cmd"].removeprefix("PYTHONPATH=src python ").split()
        kept = {key: value for key, value in os.environ.items() if key not in SAME}
        start = time.perf_counter()
        done = subprocess.run(
            [*prefix, sys.executable, *command],
            cwd=folder,
            env={**kept, "PYTHONPATH": "src", **variables},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            return [f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1]}"], time.perf_counter() - start
        differ = [out["path"] for out in stage["outs"] if digest(folder / out["path"]) != out["md5"]]
        return differ, time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", action="append", help=f"default: {', '.join(STAGES)}")
    parser.add_argument("--qemu", default=shutil.which("qemu-x86_64"), help="QEMU's emulator of processes")
    parser.add_argument("--cpu", action="append", default=[], help="a processor of QEMU, such as Haswell or EPYC-Rome")
    options = parser.parse_args()
    if options.cpu and not options.qemu:
        parser.error("--cpu: no qemu-x86_64 here; install qemu-user, or give --qemu PATH")
    try:
        locked = locked_stages(Path("dvc.lock"))
    except DataError as error:
        print(f"error: {error}; run `make run`", file=sys.stderr)
        return 1
    made = [out["path"] for name in STAGES for out in locked[name]["outs"]]
    if missing := [path for path in made if not Path(path).exists()]:
        print(f"skipped: no {missing[0]}; `make run` makes it")
        return 0
    one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    ways: dict[str, tuple[list[str], dict[str, str]]] = {
        "one core": (["taskset", "--cpu-list", "0"], one),
        f"{cores()} cores": ([], {}),
        **{f"QEMU {cpu}": ([options.qemu, "-cpu", cpu], {}) for cpu in options.cpu},
        CONTROL: ([], OTHER),
    }
    wrong = 0
    table = Table("stage", "way", "s", "outputs that differ from dvc.lock")
    for name in options.stage or STAGES:
        for way, (prefix, variables) in ways.items():
            differ, seconds = run(locked[name], prefix, variables)
            wrong += bool(differ) and way != CONTROL
            table.add_row(name, way, f"{seconds:.0f}", ", ".join(differ) or "none")
            print(name, way, differ or "same", flush=True, file=sys.stderr)
    Console(width=100).print(table)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
