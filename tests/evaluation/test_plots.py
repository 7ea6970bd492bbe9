"""Figures show the numbers that they are given."""

import numpy as np
import pytest

from mfcp.evaluation import plots

pytestmark = pytest.mark.xdist_group("report")  # one worker makes what they share


def test_figures_show_what_they_are_given(compared):
    import matplotlib.pyplot as plt

    summary, _ = compared
    drawn = []
    original = plots.save
    try:
        plots.save = lambda figure, path: drawn.append(figure)
        plots.ratios(summary, None)
    finally:
        plots.save = original
    axis = drawn[0].axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["mfcp_ad", "tsm_log_bayes"]
    pooled = next(line for line in axis.lines if line.get_marker() == "D").get_xdata()
    assert list(pooled) == [summary["pooled"][m]["vs_tsm"]["mean"] for m in ("mfcp_ad", "tsm_log_bayes")]
    plt.close(drawn[0])


def test_bars_are_as_high_as_the_means(compared, monkeypatch):
    summary, drawn = compared[0], []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    plots.bars(summary, None)
    axis = drawn[0].axes[plots.FIG4.index("reliability")]
    heights = [bar.get_height() for container in axis.containers if hasattr(container, "patches") for bar in container]
    expected = [summary[name][method]["reliability"]["mean"] for method in summary["A"] for name in ("A", "B")]
    assert heights == pytest.approx(expected)
    plots.pyplot().close(drawn[0])


def test_curves_are_means_over_seeds_in_a_panel_per_setting(monkeypatch):
    drawn, values = [], np.array([[3.0, 1.0], [5.0, 2.0]])
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    watched = {"validation.penalised_cost": values}
    plots.curves({"A/ad": watched, "B/ad": watched, "A/tsm": {}}, None)
    assert [axis.get_title()[:9] for axis in drawn[0].axes] == ["setting A", "setting B"]
    assert drawn[0].axes[0].lines[0].get_ydata().tolist() == [4.0, 1.5]
    assert len(drawn[0].axes[0].lines) == 1
    plots.pyplot().close(drawn[0])
