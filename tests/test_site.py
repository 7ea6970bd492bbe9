"""The documentation as a site: built without a warning and without network, notebooks run, found by its search."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
pytestmark = pytest.mark.xdist_group("site")  # one worker builds it


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning, or a notebook that fails, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # notebooks call `mfcp`
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", ROOT / "docs", folder / "html"]
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "html"


@pytest.mark.slow
def test_every_page_is_on_the_site_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    missing = [page for page in pages if not page.parts[0].startswith("_") and not (site / page).is_file()]
    assert missing == []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'(?:src="|<link [^>]*href=")(?:https?:)?//[^"]+', text), page


@pytest.mark.slow
def test_notebooks_have_run_and_their_figures_are_there(site: Path) -> None:
    for notebook in NOTEBOOKS:
        text = (site / "notebooks" / notebook.with_suffix(".html").name).read_text(encoding="utf-8")
        assert text.count('class="cell_output') >= 2
        assert re.search(r'<img [^>]*src="\.\./_images/[0-9a-f]+\.png"', text), notebook


@pytest.mark.slow
def test_the_search_finds_pages_commands_and_functions(site: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--allow-file-access-from-files"]
        )
        page = opened.new_page()
        for word, place in (("backlog", "matching.html"), ("relaxed_matching", "reference/python.html"),
                            ("promote", "reference/commands.html")):  # fmt: skip
            page.goto(f"file://{site}/search.html?q={word}")
            page.wait_for_selector("#search-results li")
            page.wait_for_function("document.querySelector('.search-summary').textContent.includes('found')")
            found = page.eval_on_selector_all("#search-results a", "all => all.map(a => a.href)")
            assert any(place in link for link in found), (word, found)
        opened.close()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    """What it shows is made when the site is built; what is committed is what a person has written."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert [
        cell for cell in cells if cell["cell_type"] == "code" and (cell["outputs"] or cell["execution_count"])
    ] == []
    assert cells[0]["source"][0].startswith("# ")
    assert len(NOTEBOOKS) == 3
