"""Compiled kernels: everyone runs the same code, whoever compiled it, and all clones of the same sources share it."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numba
import pytest
from numba.core import event

import mfcp
from mfcp import compiling

HELPER = """\
from mfcp.compiling import kernel

@kernel
def helped(x):
    return x * {factor}
"""
MODULE = """\
from mfcp.matching.kernels.random_numbers import helped
from mfcp.compiling import kernel, prepare

prepare(__name__)

@kernel("f8(f8[::1])", fastmath={"reassoc"})
def summed(values):
    total = 0.0
    for i in range(len(values)):
        total += helped(values[i])
    return total
"""
USER = """\
import json
import numpy as np
from mfcp.matching.kernels import relaxed_newton

value = relaxed_newton.summed(1 / np.arange(1.0, 1000.0))
found = relaxed_newton.summed.stats
hits, misses = sum(found.cache_hits.values()), sum(found.cache_misses.values())
print(json.dumps([value.hex(), relaxed_newton.__file__, hits, misses]))
"""


def clone(folder: Path, factor: str = "1.0") -> Path:
    """A small library with this one's way to compile."""
    matching = folder / "mfcp" / "matching"
    matching.mkdir(parents=True)
    kernels = matching / "kernels"
    kernels.mkdir()
    for package in (matching.parent, matching, kernels):
        (package / "__init__.py").touch()
    shutil.copy(compiling.__file__, matching.parent)
    (kernels / "random_numbers.py").write_text(HELPER.format(factor=factor))
    for name in compiling.ROUNDS:
        (folder / "mfcp" / f"{name.replace('.', '/')}.py").write_text(MODULE)
    return folder


def start(folder: Path, cache: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", USER]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def used(process: subprocess.Popen[str], folder: Path) -> tuple[str, int, int]:
    """The sum's bits, and how many of the process's kernels were loaded and compiled."""
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    value, file, hits, misses = json.loads(output)
    assert Path(file).is_relative_to(folder)
    return value, hits, misses


def modules(kept: Path) -> set[str]:
    """Which modules are compiled in a folder."""
    return {path.name for path in kept.iterdir() if path.is_dir() and not path.name.startswith(".")}


def ahead(folder: Path, cache: Path, ready: Sequence[str] = compiling.ROUNDS) -> Path:
    """The folder that a process has had filled in the background, with what is `ready` then."""
    command = (
        "from mfcp.compiling import ROUNDS, _running, is_ready, prepare_ahead; prepare_ahead(); prepare_ahead(); "
        "print(*[process.wait() for process in _running], *filter(is_ready, (*ROUNDS, 'matching.kernels.none')))"
    )
    environment = os.environ | {"PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == (f"{' '.join(['0', *ready])}\n", "")  # nothing was asked for again
    (kept,) = (cache / "mfcp" / "kernels").iterdir()
    return kept


def test_everyone_loads_what_one_process_compiled(tmp_path: Path) -> None:
    one, other, changed = clone(tmp_path / "one"), clone(tmp_path / "other"), clone(tmp_path / "changed", "2.0")
    cache = tmp_path / "cache"
    at_once = [start(folder, cache) for folder in (one, other)]
    found = [used(process, folder) for process, folder in zip(at_once, (one, other), strict=True)]
    assert found[0] == found[1] == used(start(one, cache), one)
    assert found[0][1:] == (1, 0)
    (kept,) = (cache / "mfcp" / "kernels").iterdir()
    assert modules(kept) == {"matching.kernels.random_numbers", "matching.kernels.relaxed_newton"}  # no other was asked
    twice = used(start(changed, cache), changed)  # by another file than the kernel's own
    assert float.fromhex(twice[0]) == pytest.approx(2 * float.fromhex(found[0][0]))
    assert twice[1:] == (1, 0)


def test_without_a_cache_kernels_are_kept_in_a_private_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, private = clone(tmp_path / "one"), tmp_path / f"mfcp-{os.getuid()}"
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for _ in range(2):
        value, hits, misses = used(start(one, tmp_path / "file"), one)
        assert (hits, misses) == (1, 0)
        assert float.fromhex(value) == pytest.approx(7.4844708605503449)
    assert private.stat().st_mode & 0o777 == 0o700
    before = set(tmp_path.glob("mfcp-*"))
    private.chmod(0o777)  # anybody may have written there: what is in it is not loaded
    assert used(start(one, tmp_path / "file"), one) == (value, 1, 0)
    (other,) = set(tmp_path.glob("mfcp-*")) - before
    assert modules(next((other / "kernels").iterdir())) == modules(next((private / "kernels").iterdir()))


def test_a_module_that_cannot_be_compiled_says_why(tmp_path: Path) -> None:
    one = clone(tmp_path / "one")
    with (one / "mfcp" / "matching" / "kernels" / "relaxed_newton.py").open("a") as file:
        file.write('\n@kernel("f8(f8)")\ndef wrong(x):\n    return unknown(x)\n')
    others = [name for name in compiling.ROUNDS if name != compiling.PRICES]
    assert modules(ahead(one, tmp_path / "cache", others)) == set(others)  # without a word
    process = start(one, tmp_path / "cache")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "name 'unknown' is not defined" in errors


def test_modules_are_compiled_ahead_by_another_process(tmp_path: Path) -> None:
    one, cache = clone(tmp_path / "one"), tmp_path / "cache"
    assert modules(ahead(one, cache)) >= set(compiling.ROUNDS)
    alone = clone(tmp_path / "alone")  # to the bit what a process of its own compiles
    assert used(start(one, cache), one) == used(start(alone, tmp_path / "own"), alone)


def test_nobody_is_warned_of_what_goes_on_in_the_background(tmp_path: Path) -> None:
    program = "from mfcp.compiling import prepare_ahead; prepare_ahead(['matching.kernels.random_numbers'])"
    environment = os.environ | {"PYTHONPATH": str(clone(tmp_path / "one")), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "default", "-c", program]
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stderr == ""


def test_all_kernels_of_matching_that_need_it_are_prepared() -> None:
    assert set(compiling.prepared("matching")) == {*compiling.ROUNDS, "matching.kernels.parallel_descent"}


def test_an_edit_of_what_a_kernel_of_the_simulator_imports_has_it_compiled_again() -> None:
    """Its clocks lie in one folder, whose name changes with any of their sources, constants of `books` included."""
    from mfcp.simulator.kernels import allocation, queueing

    folders = [Path(kernel._cache.cache_path).parent for kernel in (queueing.run, allocation.fit)]
    assert folders[0] == folders[1]
    source = Path(compiling.__file__).parent
    asked = [compiling._folder.__wrapped__("simulator")]
    for name in ("books", "allocation", "queueing"):
        path = source / "simulator" / "kernels" / f"{name}.py"
        with pytest.MonkeyPatch.context() as patch:
            plain = Path.read_bytes
            patch.setattr(Path, "read_bytes", lambda own, path=path, plain=plain: plain(own) + b"#" * (own == path))
            asked.append(compiling._folder.__wrapped__("simulator"))
    assert asked[0] == folders[0]
    assert len(set(asked)) == len(asked)


def test_the_library_s_own_kernels_are_kept_so() -> None:
    from mfcp.matching.kernels import relaxed_newton

    folder = Path(relaxed_newton.solve_range._cache.cache_path)
    assert folder.name == "matching.kernels.relaxed_newton"
    assert not folder.is_relative_to(Path(mfcp.__file__).parent)
    assert relaxed_newton.solve_range.stats.cache_hits
    assert not relaxed_newton.solve_range.stats.cache_misses


class Seen(event.Listener):
    """Whether the collector was at work when a compilation began."""

    def __init__(self):
        self.at_work = []

    def on_start(self, _):
        self.at_work.append(gc.isenabled())

    def on_end(self, _):
        pass


def outer_of_inner():
    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) + inner(1.0 * x)

    return outer


def wrong():
    return numba.njit(lambda x: x.no_such_attribute)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("make", [outer_of_inner, wrong])
def test_the_collector_rests_while_a_kernel_is_compiled_and_is_then_as_before(make, enabled):
    before, seen = gc.isenabled(), Seen()
    try:
        (gc.enable if enabled else gc.disable)()
        with event.install_listener("numba:compile", seen):
            if make is wrong:
                with pytest.raises(numba.TypingError):
                    make()(1)
            else:
                assert make()(1) == 4.0
        assert seen.at_work == [False] * (3 if make is outer_of_inner else 1)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
