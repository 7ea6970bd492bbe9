"""Study files: what is wrong in one is told in a line that names it; what a job depends on changes its name."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from study_plans import PARAMS, plan

from mfcp.errors import SettingsError
from mfcp.paper.jobs import plan_jobs
from mfcp.paper.study_file import DEFAULT, StudyPlan
from mfcp.settings import Settings

HELD_OUT = DEFAULT.with_name("held_out.yaml")
SOURCE = {"kind": "emulator"}


def view(content, **changes):
    """A table of the comparison's results, with what a test makes wrong about it."""
    rows = content["experiments"]["comparison"]["rows"][:1]
    content["experiments"]["view"] = {"title": "a view", "of": "comparison", "rows": rows} | changes


def keys(made, source=SOURCE):
    jobs = plan_jobs(made, {"default": source}, tuple(made.study.experiments), ("A", "B"))
    return {job.name: job.key for job in jobs}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(colour="red"), "colour: unknown key"),
        (lambda c: c["held_out"].update(draws=13, settings=2), "settings and held_out: 28 settings; at most 26"),
        (lambda c: c["held_out"].update(names="none.yaml"), r"held_out\.names: .*none\.yaml"),
        (lambda c: c["held_out"].update(names="../a.yaml"), r"held_out\.names: expected a file beside it"),
        (lambda c: c["held_out"].update(names=["a"]), r"held_out\.names"),
        (lambda c: c["held_out"].update(names={"timm": ["a"]}), r"held_out\.names\.timm"),
        (
            lambda c: c["held_out"].update(names={"timm": {"tasks": ["a"]}}),
            r"held_out\.names\.timm\.tasks: unknown key",
        ),
        (lambda c: c.pop("seeds"), "seeds: Field required"),
        (lambda c: c["ours"].append("magic"), "ours: no method 'magic'; known: "),
        (lambda c: c["experiments"]["tasks"]["rows"].append("magic"), r"experiments\.tasks\.rows: no method 'magic'"),
        (lambda c: c["experiments"]["tasks"].update(rounds=3), r"experiments\.tasks\.rounds: unknown key"),
        (
            lambda c: c["experiments"]["tasks"].update(matching={"task": 3}),
            r"experiments\.tasks: matching\.task: unknown",
        ),
        (lambda c: c["experiments"]["tasks"].update(sweep={"gamma": [1]}), r"experiments\.tasks\.sweep\.gamma"),
        (lambda c: c["experiments"]["tasks"].update(settings=["C"]), "no setting 'C'; known: A, B"),
        (lambda c: c["goals"][0].update(experiment="comparisons"), "goal 'ours': no experiment 'comparisons'"),
        (lambda c: c["goals"][0].update(method="mfcp_ad"), "goal 'ours': no row 'mfcp_ad' in comparison"),
        (lambda c: c["methods"]["bayes"].update(kind="three_stage"), r"methods\.bayes: unknown method kind"),
        (lambda c: c.update(params={"matchings": {}}), "unknown section 'matchings'"),
        (lambda c: c["headline"].update(experiment="tasks"), r"headline\.experiment: 'tasks' is no experiment, or has"),
        (lambda c: c["headline"]["rows"].update(other=["ucb"]), "headline: no row 'ucb' in comparison; known: tsm"),
        (lambda c: c["headline"]["follows"][0].update(text="no place"), r"headline\.follows.*text"),
        (lambda c: view(c, of="comparisons"), r"experiments\.view\.of: 'comparisons' has no jobs"),
        (lambda c: view(c, of="tasks"), r"experiments\.view\.of: 'tasks' has no jobs of its own, or a sweep"),
        (lambda c: view(c, rows=["ucb"]), r"experiments\.view\.rows: 'ucb' is no row of comparison"),
        (lambda c: view(c, matching={"tasks": 3}), r"experiments\.view: only rows can differ from comparison"),
    ],
)
def test_a_wrong_study_file_is_one_line_that_names_the_key(tmp_path, change, message):
    with pytest.raises(SettingsError, match=message) as raised:
        plan(tmp_path, change)
    assert str(raised.value).startswith(str(tmp_path / "study.yaml"))
    assert "\n" not in str(raised.value)


def test_a_file_that_is_no_study_is_refused(tmp_path):
    path = tmp_path / "study.yaml"
    for text in ("- a list\n", "seeds: [\n"):
        path.write_text(text)
        with pytest.raises(SettingsError, match=r"study\.yaml: "):
            StudyPlan.load(path, Settings.load(PARAMS))
    with pytest.raises(SettingsError, match="no such file; expected a study"):
        StudyPlan.load(tmp_path / "none.yaml", Settings.load(PARAMS))


def test_a_view_has_no_jobs_and_a_sweep_ends_where_a_log_does(tmp_path):
    plain = keys(plan(tmp_path))
    assert keys(plan(tmp_path, view)) == plain
    only = plan(tmp_path, view)
    assert {job.name for job in plan_jobs(only, {"default": SOURCE}, ("view",), ("A",))} == {
        "default-study", "default-pretrain-A", "default-comparison-A",
    }  # fmt: skip
    values = only.study.experiments["tasks"].values

    def shorter(content):
        content["experiments"]["tasks"]["largest"] = {"default": min(values)}

    cut = keys(plan(tmp_path, shorter))
    assert plain.keys() - cut.keys() == {f"default-tasks-{s}-{v:g}" for s in "AB" for v in values if v > min(values)}


def test_no_other_file_names_what_is_held_out_for_good():
    """Families, source tasks and clusters of logs that others measured; a name in a document has been looked at."""
    root = Path(__file__).parents[2]
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    logs = yaml.safe_load(HELD_OUT.read_text()).values()
    names = {name for log in logs for own in log.values() for name in own}
    assert all(len({name for log in logs for name in log.get(what, ())}) > 20 for what in ("families", "clusters"))
    words = re.compile(rf"(?<![\w/-])({'|'.join(map(re.escape, sorted(names)))})(?![\w/-])", re.IGNORECASE)
    for name in listed:
        path = root / name
        if path == HELD_OUT or not path.is_file() or path.suffix in (".parquet", ".png", ".gz"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        lower = text.lower()  # to look for each name is faster than for all at every place
        found = words.search(text) if any(own.lower() in lower for own in names) else None
        assert not found, f"{name} names '{found and found[0]}', which {HELD_OUT.name} holds out for good"


def test_the_shipped_study_fits_the_shipped_params():
    shipped = StudyPlan.load(DEFAULT, Settings.load(PARAMS))
    assert shipped.study.seeds >= 10
    assert shipped.study.settings >= 6
    assert len(set(shipped.settings_of("comparison")) - set(shipped.study.tuning)) >= 3
    assert any(own.held_out for own in shipped.study.experiments.values())
    assert shipped.study.held_out.draws >= 7
    for name, ends in (("tasks", (5, 50)), ("parallel", (0.6, 0.6))):  # the ranges of Fig. 5 and Table 2
        values = shipped.study.experiments[name].values
        assert (min(values), max(values)) == ends
