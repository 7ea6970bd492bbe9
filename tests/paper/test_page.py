"""docs/results.md is what its JSON gives, and its figures are there."""

from pathlib import Path

from mfcp.files import read_json
from mfcp.paper.figures import names
from mfcp.paper.page import page

DOCS = Path(__file__).parents[2] / "docs"
FOUND = DOCS / "results" / "paper.json"


def test_the_page_is_what_its_json_gives():
    results = read_json(FOUND)
    assert page(results) == (DOCS / "results.md").read_text(encoding="utf-8"), "run `mfcp paper --page`"
    for name in names(results):
        assert (FOUND.parent / name).read_bytes().startswith(b"\x89PNG"), f"{name} is missing: `mfcp paper --publish`"
        assert f"(results/{name})" in page(results)
