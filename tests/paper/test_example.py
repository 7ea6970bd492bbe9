"""The paper's small example."""

from pathlib import Path

from mfcp.paper.study_file import DEFAULT, StudyPlan
from mfcp.settings import Settings

PARAMS = Path(__file__).parents[2] / "params.yaml"


def test_the_small_example_shows_what_it_is_for():
    from mfcp.paper.example import worked

    by_error, by_plan, optimum = worked(StudyPlan.load(DEFAULT, Settings.load(PARAMS)).study.example)
    assert by_error.squared_error < by_plan.squared_error
    assert by_error.makespan > by_plan.makespan == optimum
