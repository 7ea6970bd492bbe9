"""The test files of what has changed: `python tests/affected.py [REVISION]` prints them for pytest.

A changed module brings its mirrored test, a changed test file itself, a changed helper or document the tests that read
it. Without a revision the uncommitted changes count, or the last commit where there are none.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = ("tests/test_house.py", "tests/test_layers.py")  # what any change can break


def changed(revision: str | None) -> list[str]:
    """Paths, relative to the root, that differ from a revision; files that git does not know yet as well."""
    against = [revision] if revision else []
    paths = _git("diff", "--name-only", *(against or ["HEAD"])) + _git("ls-files", "--others", "--exclude-standard")
    return paths or _git("diff", "--name-only", "HEAD~1")


def tests_of(path: str) -> list[str]:
    """The test files that a changed file calls for; none where no fast test reads it."""
    parts = Path(path).parts
    if parts[0] == "tests" and parts[-1].startswith("test_"):
        found = [path]
    elif parts[0] == "tests" and path.endswith(".py"):  # a helper: whoever imports it by name
        name = Path(path).stem
        found = [
            str(test.relative_to(ROOT)) for test in _tests() if f"{name} import" in test.read_text(encoding="utf-8")
        ]
    elif parts[:2] == ("src", "mfcp") and path.endswith(".py"):
        found = [str(Path("tests", *parts[2:-1], f"test_{parts[-1]}"))]
    elif parts[0] == "flows":
        found = [str(Path("tests", "flows", f"test_{parts[-1]}"))]
    elif path.endswith(".md"):
        found = ["tests/test_docs.py", "tests/test_equations.py"]
    elif path in ("params.yaml", "dvc.yaml"):
        found = ["tests/test_settings.py"]
    else:
        found = []
    return [test for test in found if (ROOT / test).exists()]


def _tests() -> list[Path]:
    return sorted((ROOT / "tests").rglob("test_*.py"))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


if __name__ == "__main__":
    found = {test for path in changed(sys.argv[1] if len(sys.argv) > 1 else None) for test in tests_of(path)}
    print(*sorted(found | set(ALWAYS)))
