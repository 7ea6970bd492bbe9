"""Figures of the study are what the summary gives."""

from pathlib import Path

import pytest

from mfcp.files import read_json, write_json
from mfcp.paper.page import FIGURE, SUMMARY, write_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def summary():
    return read_json(DOCS / SUMMARY)


def test_the_figure_is_what_its_summary_gives(summary, tmp_path):
    write_json(tmp_path / SUMMARY, summary)
    write_page(tmp_path)
    pytest.importorskip("PIL")
    import numpy as np
    from PIL import Image

    ours, kept = (np.asarray(Image.open(folder / FIGURE).convert("L"), float) for folder in (tmp_path, DOCS))
    assert ours.shape == kept.shape
    assert abs(ours - kept).mean() < 1.0, "run `mfcp paper --page`"  # fonts may differ by a shade
