"""A person's checkout with a pipeline of three quick stages, to make a platform of."""

from __future__ import annotations

import subprocess
from pathlib import Path

PARAMS = """\
# Numbers.
ingest: # where logs come from
  source: {kind: emulator}
  reads: source
validate:
  max_bad_share: 0.05 # of any table
"""
DVC_YAML = """\
vars: [params.yaml]
stages:
  raw:
    cmd: mkdir -p data && cp -r ${ingest.reads} data/raw
    deps: ["${ingest.reads}"]
    outs: [data/raw]
  release:
    cmd: sh release.sh
    deps: [data/raw, release.sh]
    outs: [data/release]
  other:
    cmd: exit 1
    deps: [data/release]
    outs: [data/other]
"""


def git(root: Path, *arguments: str) -> str:
    person = ("-c", "user.name=person", "-c", "user.email=person@example.org")
    return subprocess.run(["git", *person, *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def make_checkout(root: Path, release: str = "exit 1") -> Path:
    """A git and DVC repository, with something in it that nobody has committed.

    Args:
        root: folder to make.
        release: commands of stage `release`.
    """
    (root / ".dvc").mkdir(parents=True)
    (root / ".dvc" / "config").write_text("[core]\n    analytics = false\n    autostage = false\n")
    (root / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    (root / ".gitignore").write_text("/data/*\n!/data/*.dvc\n")
    (root / "params.yaml").write_text(PARAMS)
    (root / "dvc.yaml").write_text(DVC_YAML)
    (root / "release.sh").write_text(release + "\n")
    (root / "source").write_text("emulated\n")
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "A pipeline")
    (root / "unfinished.txt").write_text("a person's\n")
    return root
