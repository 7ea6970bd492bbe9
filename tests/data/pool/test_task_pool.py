import dataclasses

import numpy as np
import pytest
from toy import toy_pool

from mfcp.data.pool.task_pool import TaskPool
from mfcp.errors import DataError


@pytest.fixture
def pool():
    return toy_pool(tasks=12, clusters=3)[0]


def equal(first, second):
    for field in dataclasses.fields(TaskPool):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))
    return True


def test_saved_and_loaded_again(tmp_path, pool):
    pool = dataclasses.replace(pool, notes=("something left out",))
    pool.save(tmp_path)
    assert equal(TaskPool.load(tmp_path), pool)
    without = dataclasses.replace(pool, T_true=None, A_true=None)
    without.save(tmp_path)
    assert TaskPool.load(tmp_path).T_true is None


def test_the_same_pool_gives_the_same_bytes(tmp_path, pool):
    pool.save(tmp_path / "1")
    TaskPool.load(tmp_path / "1").save(tmp_path / "2")
    for name in ("pool.json", "pool.safetensors"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_damaged_files_are_named(tmp_path, pool):
    with pytest.raises(DataError, match=r"pool\.json: no such file"):
        TaskPool.load(tmp_path)
    pool.save(tmp_path)
    path = tmp_path / "pool.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"not a whole task pool .* run the stage that makes it again"):
        TaskPool.load(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="not a whole task pool"):
        TaskPool.load(tmp_path)


def test_selected_by_index_and_mask(pool):
    some = pool.select(clusters=[2, 0], tasks=[5, 1])
    np.testing.assert_array_equal(some.T, pool.T[[2, 0]][:, [5, 1]])
    np.testing.assert_array_equal(some.A_true, pool.A_true[[2, 0]][:, [5, 1]])
    assert some.cluster_id.tolist() == ["cluster2", "cluster0"]
    assert some.task_id.tolist() == ["task5", "task1"]
    mask = np.arange(12) > 8
    assert equal(pool.select(tasks=mask), pool.select(tasks=[9, 10, 11]))
    assert equal(pool.select(), pool)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"T": np.ones((2, 2))}, r"T has shape \(2, 2\), expected \(3, 12\)"),
        ({"pool_size": np.ones(12)}, r"pool_size has shape \(12,\), expected \(3,\)"),
        ({"task_id": np.array(["same"] * 12)}, "task_id 'same' occurs twice"),
        ({"emulated": ("weather",)}, "emulated names weather"),
        (
            {"T": np.full((3, 12), -1.0)},
            r"cluster cluster\d, task task\d+: T is -1.0, expected positive finite seconds",
        ),
        ({"A": np.full((3, 12), 1.5)}, r"A is 1.5, expected a probability"),
        ({"allowed": np.ones((3, 12), bool)}, "T is nan"),
    ],
)
def test_contradictions_are_refused(pool, changes, message):
    with pytest.raises(DataError, match=message):
        dataclasses.replace(pool, **changes)
