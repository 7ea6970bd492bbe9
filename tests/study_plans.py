"""The tests' own study file, as it is or changed."""

from pathlib import Path

import yaml

from mfcp.paper.study_file import StudyPlan
from mfcp.settings import Settings

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "tests" / "paper" / "study.yaml"
PARAMS = ROOT / "params.yaml"


def plan(tmp_path, change=lambda content: None, base=None):
    content = yaml.safe_load(STUDY.read_text())
    change(content)
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content))
    return StudyPlan.load(path, base or Settings.load(PARAMS))
