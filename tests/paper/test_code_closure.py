"""The code that runs with a module, read from sources."""

import subprocess
import sys

import pytest

from mfcp.paper.code_closure import PLUMBING, closure, imported, members, modules, stage_code


def test_a_closure_holds_itself_and_the_closures_of_all_that_it_imports():
    for name in ("mfcp.rules.margin", "mfcp.stages.evaluate", "mfcp.matching.expected"):
        own = closure(name)
        assert name in own
        assert not own & PLUMBING
        for other in own:
            assert closure(other) <= own


@pytest.mark.parametrize("name", ["mfcp.data.pool.splits", "mfcp.matching.regret"])
def test_importing_a_module_brings_nothing_that_its_closure_lacks(name):
    program = f"import sys, {name}; print(*(m for m in sys.modules if m.startswith('mfcp')))"
    brought = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    code = {m for m in brought.split() if m not in PLUMBING and modules()[m].name != "__init__.py"}
    assert code <= closure(name)


def test_a_stage_runs_the_members_of_the_families_that_its_settings_name():
    assert set(members("mfcp.rules")) <= stage_code("finetune")
    assert not set(members("mfcp.rules")) & stage_code("validate")


def test_what_only_a_type_checker_sees_does_not_run(tmp_path):
    source = tmp_path / "one.py"
    source.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mfcp.a import B\nimport mfcp.c\n")
    assert imported(source) == {"typing.TYPE_CHECKING", "mfcp.a.B", "mfcp.c"}
    assert imported(source, run_only=True) == {"typing.TYPE_CHECKING", "mfcp.c"}
