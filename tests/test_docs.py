"""What the documents show works: Python blocks run, shown commands exist, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from warm import WarmPython, warm_python

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(page, *block) for page in PAGES for block in FENCE.findall(page.read_text(encoding="utf-8"))]
PYTHON = sorted({page for page, language, _ in BLOCKS if language == "python"})
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
MAINTENANCE = {"help", "lint", "lock", "setup"}  # told in CONTRIBUTING or by `make` itself


def label(page: Path) -> str:
    return str(page.relative_to(ROOT))


def shown_commands(page: Path) -> list[str]:
    """Lines of console blocks that begin with `$`, and single commands in running text."""
    text = page.read_text(encoding="utf-8")
    blocks = [block for where, language, block in BLOCKS if where == page and language == "console"]
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    prose = FENCE.sub("", text)
    return lines + re.findall(r"`((?:make|mfcp) [^`]+)`", prose)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmPython]:
    """A Python to which every warning is an error, also while it imports what most pages import."""
    imports = ("mfcp", "mfcp.matching.planning", "torch", "pandas")
    with warm_python(tmp_path_factory.mktemp("python"), "-W", "error", imports=imports) as python:
        yield python


@pytest.mark.xdist_group("blocks")  # one worker starts it
@pytest.mark.parametrize("page", PYTHON, ids=label)
def test_python_blocks_run(page: Path, python: WarmPython, tmp_path: Path) -> None:
    """All of a page's blocks one after another, in one program, in an empty folder."""
    program = "\n".join(block for where, language, block in BLOCKS if where == page and language == "python")
    done = python.run(program, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_shown_commands_exist(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mfcp.cli import main

    for command in shown_commands(page):
        program, *arguments = shlex.split(command, comments=True)
        if program == "make":
            targets = [word for word in arguments if "=" not in word]
            assert set(targets) <= TARGETS, f"{label(page)}: {command}"
        elif program == "mfcp":
            # --help after the shown options: they are parsed, then the sub-command's help ends the program well.
            with pytest.raises(SystemExit) as end:
                main([*arguments, "--help"])
            assert end.value.code == 0, f"{label(page)}: {command}\n{capsys.readouterr().err}"
            options = {word for word in arguments if word.startswith("--")}
            known = capsys.readouterr().out
            assert not [option for option in options if option not in known], f"{label(page)}: {command}"


def test_readme_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    from mfcp.cli import main

    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+)(?: {2,}\S|$)", capsys.readouterr().out, flags=re.MULTILINE)
    assert "benchmark" in commands
    named = [*(f"mfcp {name}" for name in commands), *(f"make {name}" for name in TARGETS - MAINTENANCE)]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in named if f"| `{name}` |" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert broken == [], f"{label(page)}: {broken}"


def test_paths_in_running_text_exist() -> None:
    """Files of ours that README and CONTRIBUTING name in backticks."""
    for name in ("README.md", "CONTRIBUTING.md"):
        prose = FENCE.sub("", (ROOT / name).read_text(encoding="utf-8"))
        paths = re.findall(r"`((?:src|tests|flows|docs|benchmarks)/[\w./]+)`", prose)
        assert [path for path in paths if not (ROOT / path).exists()] == []


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem[:4])
def test_a_decision_has_a_status_and_the_usual_parts_and_stands_in_the_index(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    title, status = re.match(r"# (.*)\n\n\*\*Status:\*\* (.*)\n", text).groups()  # type: ignore[union-attr]
    assert title[:4] == page.name[:4]
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == ["Context", "Decision", "Consequences"]
    index = (page.parent / "README.md").read_text(encoding="utf-8")
    assert f"| [{title}]({page.name}) | {status} |" in index


def test_paths_of_modules_and_tests_that_documents_name_exist() -> None:
    """`src/…`, `tests/…` and the last two parts of a module's path, as in `large/pricing.py`."""
    known = {
        str(path.relative_to(ROOT))
        for folder in ("src", "tests", "benchmarks", "flows")
        for path in (ROOT / folder).rglob("*")
    }
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue
        for name in re.findall(r"[\w/]+/\w+\.py\b", page.read_text(encoding="utf-8")):
            assert any(path == name or path.endswith(f"/{name}") for path in known), f"{label(page)}: no {name}"
