"""`dvc push` and `dvc pull` work without any set-up: the remote is a folder beside the checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def test_what_one_checkout_pushes_another_beside_it_pulls(tmp_path):
    def dvc(where, *arguments):
        done = subprocess.run([sys.executable, "-m", "dvc", *arguments], cwd=where, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        dvc(folder, "init")
        shutil.copy(ROOT / ".dvc/config", folder / ".dvc/config")
    (one / "numbers.txt").write_text("1 2 3\n")
    dvc(one, "add", "numbers.txt")
    dvc(one, "push")
    shutil.copy(one / "numbers.txt.dvc", other)
    dvc(other, "pull")
    assert (other / "numbers.txt").read_text() == "1 2 3\n"
    assert (tmp_path / "mfcp-dvc").is_dir()
