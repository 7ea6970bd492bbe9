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


def test_dots_lie_at_the_means_and_axes_are_linear(compared, monkeypatch):
    summary, drawn = compared[0], []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    plots.metrics(summary, None)
    axis = drawn[0].axes[plots.FIG4.index("reliability")]
    for container, name in zip(axis.containers, ("A", "B"), strict=True):
        expected = [summary[name][method]["reliability"]["mean"] for method in summary["A"]]
        assert container.lines[0].get_xdata() == pytest.approx(expected)
    assert {axis.get_xscale() for axis in drawn[0].axes} == {"linear"}
    assert [text.get_text() for text in drawn[0].axes[0].get_yticklabels()] == list(summary["A"])
    plots.pyplot().close(drawn[0])


def test_curves_are_means_over_seeds_in_a_panel_per_setting(monkeypatch):
    drawn, values = [], np.array([[3.0, 1.0], [5.0, 2.0]])
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    watched = {"validation.penalised_cost": values}
    plots.curves({"A/ad": watched, "B/ad": watched, "A/tsm": {}}, None)
    assert [axis.get_title()[:9] for axis in drawn[0].axes] == ["setting A", "setting B"]
    assert drawn[0].axes[0].lines[0].get_ydata().tolist() == [0.0, -2.5]  # of -2 and -3
    assert drawn[0].axes[0].lines[2].get_ydata().tolist() == [0.0, -2.0]  # and a standard error of 0.5
    plots.pyplot().close(drawn[0])
