"""Jobs of the study: named by what they depend on."""

import pytest
from study_plans import plan

from mfcp.errors import SettingsError
from mfcp.paper.jobs import plan_jobs
from mfcp.paper.study_file import Goal

SOURCE = {"kind": "emulator"}


def keys(made, source=SOURCE):
    jobs = plan_jobs(made, {"default": source}, tuple(made.study.experiments), ("A", "B"))
    return {job.name: job.key for job in jobs}


def changed(one, other):
    assert one.keys() == other.keys()
    return {name for name in one if one[name] != other[name]}


def test_a_change_renames_only_the_jobs_that_it_reaches(tmp_path):
    usual = keys(plan(tmp_path))
    chosen_on = {name for name in usual if "choice" in name}
    compared = {name for name in usual if "comparison" in name or "tasks" in name} | {"default-choice-A"}
    assert changed(usual, keys(plan(tmp_path, lambda c: c.update(deviations=[], goals=[])))) == set()
    assert changed(usual, keys(plan(tmp_path, lambda c: c["choice"].update(seeds=[8, 9])))) == chosen_on
    assert (
        changed(
            usual, keys(plan(tmp_path, lambda c: c["experiments"]["comparison"].update(evaluate={"bootstrap": 777})))
        )
        == set()
    )
    assert changed(usual, keys(plan(tmp_path, lambda c: c["experiments"]["tasks"].update(finetune={"steps": 3})))) == {
        name for name in usual if "tasks" in name
    }
    assert changed(usual, keys(plan(tmp_path, lambda c: c.update(params={"pretrain": {"folds": 3}})))) == {
        name for name in usual if not name.endswith("-study")
    }
    assert changed(usual, keys(plan(tmp_path, lambda c: c.update(params={"evaluate": {"rounds": 7}})))) == compared
    assert changed(usual, keys(plan(tmp_path, lambda c: c.update(seeds=3)))) == set(usual) - chosen_on


def test_a_log_is_known_by_what_is_in_it(tmp_path):
    made = plan(tmp_path)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tasks.csv").write_text("task_id\n1\n")
    one, two = ({"kind": "folder", "path": str(tmp_path / name)} for name in ("one", "two"))
    assert keys(made, one) == keys(made, two)
    (tmp_path / "two" / "tasks.csv").write_text("task_id\n2\n")
    assert changed(keys(made, one), keys(made, two)) == set(keys(made, one))


def test_methods_are_chosen_on_settings_for_tuning_under_seeds_of_their_own(tmp_path):
    made = plan(tmp_path)
    jobs = {job.name: job for job in plan_jobs(made, {"default": SOURCE}, ("comparison",), ("A", "B"))}
    chosen = jobs["default-choice-A"]
    assert "default-choice-B" not in jobs  # not for tuning
    assert list(chosen.content["methods"]) == [*made.study.ours, *made.study.baselines]
    study, base = chosen.needs
    assert study.content["featurize"]["seeds"] == [7]
    assert base.needs == (study,)
    assert jobs["default-comparison-A"].needs[0].content["featurize"]["seeds"] == [0, 1]
    with pytest.raises(SettingsError, match=r"choice\.seeds: 1 is a seed that tables report; take one of at least 2"):
        plan(tmp_path, lambda content: content["choice"].update(seeds=[1, 7]))
    without = plan_jobs(made, {"default": SOURCE}, ("tasks",), ("A",))
    assert not any("choice" in job.name for job in without)


def test_held_out_families_and_settings_have_a_study_of_their_own(tmp_path):
    def held_out(content):
        content["experiments"]["unseen"] = {"title": "unseen", "rows": ["tsm"], "held_out": True}

    made = plan(tmp_path, held_out)
    assert made.settings_of("unseen") == ("C", "D")
    assert made.settings_of("unseen", 1) == ("D",)
    jobs = {job.name: job for job in plan_jobs(made, {"default": SOURCE}, ("comparison", "unseen"), ("A", "C", "D"))}
    names = ("default-comparison-A", "default-unseen-C", "default-unseen-D")
    usual, first, second = (jobs[name].needs[0].content["featurize"] for name in names)
    assert usual["held_out"] == first["held_out"] == 0.2
    assert "tests_on" not in usual
    assert (first["tests_on"], first["settings"], first["settings_after"], first["draw"]) == ("held_out", 2, 2, 0)
    assert second == {**first, "draw": 1}
    assert "default-unseen-A" not in jobs
    alone = {job.name for job in plan_jobs(made, {"default": SOURCE}, ("unseen",), ("D",))}
    assert "default-draw0-study" not in alone


def test_what_is_held_out_for_good_is_left_out_of_every_other_study_of_that_log(tmp_path):
    def named(content):
        content["held_out"]["names"] = {"default": {"families": ["resnet", "vgg"]}}

    made = plan(tmp_path, named)
    jobs = {job.name: job for job in plan_jobs(made, {"default": SOURCE, "other": SOURCE}, ("comparison",), ("A",))}
    for name in ("default-comparison-A", "default-choice-A"):
        assert jobs[name].needs[0].content["featurize"]["held_out_names"] == ["resnet", "vgg"]
    assert "held_out_names" not in jobs["other-comparison-A"].needs[0].content["featurize"]


def test_clusters_held_out_for_good_are_in_draws_of_test_tasks_alone(tmp_path):
    def named(content):
        content["held_out"]["names"] = {"default": {"clusters": ["river-xeonx4"]}}
        content["experiments"]["unseen"] = {"title": "unseen", "rows": ["tsm"], "held_out": True}

    logs = {"default": SOURCE, "other": SOURCE}
    made, plain = (
        plan(tmp_path, named),
        plan(tmp_path, lambda content: named(content) or content["held_out"].pop("names")),
    )
    jobs, before = (
        {job.name: job for job in plan_jobs(each, logs, ("comparison", "unseen"), ("A", "C"))} for each in (made, plain)
    )
    for name, kept in (("comparison-A", False), ("choice-A", False), ("unseen-C", True)):
        own = jobs[f"default-{name}"].needs[0].content["clusters"]
        assert own == {"names": ["river-xeonx4"], "kept": kept}
        assert jobs[f"other-{name}"].key == before[f"other-{name}"].key  # a log that holds none out is as it was


def test_a_goal_may_be_another_on_one_log():
    goal = Goal(text="", experiment="e", method="a", against="b", at_most=0.65, at_most_on={"default": 0.45})
    assert (goal.on("default").at_most, goal.on("timm").at_most) == (0.45, 0.65)
