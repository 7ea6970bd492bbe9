"""`python -m mfcp.matching`, with which `make setup` compiles all kernels."""

from __future__ import annotations

import subprocess
import sys

from mfcp import compiling


def test_all_kernels_are_compiled_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-m", "mfcp.matching"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    complete, kept = compiling.kept("matching")
    assert complete
    assert all((kept / name).is_dir() for name in compiling.prepared("matching"))
