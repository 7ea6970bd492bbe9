"""A setting: rounds of its parts, problems under labels and under the truth."""

import numpy as np
import pytest
from toy import toy_setting, toy_study

from mfcp.errors import DataError
from mfcp.study.setting import PARTS, RoundSettings, gather


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.mark.parametrize("part", PARTS)
def test_rounds_hold_different_tasks_of_their_part_alone(setting, part):
    rounds = setting.rounds(part, 30)
    assert rounds.shape == (2, 30, 4)
    for s in range(2):
        assert (setting.split[s][rounds[s]] == PARTS[part]).all()
        assert all(len(set(one)) == 4 for one in rounds[s].tolist())
    np.testing.assert_array_equal(rounds[1], toy_setting(seeds=(1,)).rounds(part, 30)[0])


def test_a_problem_is_the_labels_of_its_rounds_or_the_truth(setting):
    rounds = setting.rounds("test", 5)
    for truth, T in ((False, setting.T), (True, setting.T_true)):
        problem = setting.problem(rounds, truth=truth)
        j = rounds[1, 2, 3]
        known = setting.allowed[:, j]
        np.testing.assert_array_equal(problem.T[5 + 2, known, 3], T[known, j])
        assert problem.gamma[7] == setting.gamma[1]
        assert not problem.allowed[7, ~known, 3].any()


def test_entries_by_seed_are_those_of_the_seed(setting):
    rounds = setting.rounds("train", 3)
    values = np.random.default_rng(0).normal(size=(2, 3, setting.Z.shape[1]))
    assert gather(values, rounds)[3 + 1, 2, 0] == values[1, 2, rounds[1, 1, 0]]


def test_a_part_with_too_few_tasks_is_named():
    study = toy_study()
    short = study.setting("A", RoundSettings(tasks=40, validation_rounds=10), price=4.0).at_size(40)
    with pytest.raises(DataError, match=r"setting A, seed 0: \d+ validation tasks for rounds of 40"):
        short.rounds("validation", 10)


def test_smaller_rounds_come_in_larger_numbers(setting):
    assert setting.at_size(4) is setting
    small = setting.at_size(3).matching
    assert small.tasks == 3
    assert small.validation_rounds * 3 >= 40 * 4


def test_a_seed_without_a_fold_learns_from_all_other_folds(setting):
    fold = np.where(setting.split == 0, np.arange(setting.Z.shape[1]) % 3, -1)
    each = setting.by_fold(fold)
    assert len(each.seeds) == 6
    assert len(set(each.seeds)) == 6
    for s in range(2):
        for f in range(3):
            left = (setting.split[s] == 0) & (fold[s] == f)
            expected = np.where(left, -1, setting.split[s])
            np.testing.assert_array_equal(each.split[3 * s + f], expected)
