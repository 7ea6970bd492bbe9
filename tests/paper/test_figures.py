"""Figures of the study are what the summary gives."""

from pathlib import Path

import pytest

from mfcp.border.json_text import read_json
from mfcp.files import write_json
from mfcp.paper.page import ERRORS, RESULTS, SUMMARY, write_pages
from mfcp.paper.tables_page import RATIOS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    write_json(folder / SUMMARY, read_json(DOCS / SUMMARY))
    write_pages(folder)
    return folder / RESULTS


@pytest.mark.parametrize("name", [ERRORS, RATIOS])
def test_a_figure_is_what_its_summary_gives(drawn, name):
    pytest.importorskip("PIL")
    import numpy as np
    from PIL import Image

    ours, kept = (np.asarray(Image.open(folder / name).convert("L"), float) for folder in (drawn, DOCS / RESULTS))
    assert ours.shape == kept.shape
    assert abs(ours - kept).mean() < 1.0, "run `mfcp paper --page`"  # fonts may differ by a shade
