import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfcp.data.pool.splits import (
    describe,
    draw_settings,
    family_of,
    held_out_tasks,
    interaction_share,
    split_tasks,
)
from mfcp.data.pool.task_pool import TaskPool
from mfcp.errors import DataError


def pool_of(families, allowed=None, sources=None):
    n = len(families)
    allowed = np.ones((4, n), bool) if allowed is None else allowed
    rng = np.random.default_rng(0)
    T = np.where(allowed, rng.lognormal(3, 1, allowed.shape), np.nan)
    return TaskPool(
        task_id=np.array([f"t{k}" for k in range(n)]),
        family=np.array(families, np.str_),
        source_task=np.array([f"t{k}" for k in range(n)] if sources is None else sources),
        cluster_id=np.array([f"c{k}" for k in range(len(allowed))]),
        T=T,
        A=np.where(allowed, 0.9, np.nan),
        runs=np.where(allowed, 30, 0),
        allowed=allowed,
        samples=np.ones(n),
        pool_size=np.ones(len(allowed)),
    )


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("resnet-18", "resnet"),
        ("resnet50.a1_in1k", "resnet"),
        ("tv_resnet50", "resnet"),
        ("tf_efficientnetv2_s", "efficientnet"),
        ("efficientnet_b0", "efficientnet"),
        ("beitv2_base", "beit"),
        ("beit_base", "beit"),
        ("vit_base_patch16", "vit"),
        ("BERT-large", "bert"),
        ("gpt3", "gpt"),
        ("google/t5-small", "google"),
        ("tv", "tv"),
        ("3dunet", "3dunet"),
        ("", ""),
    ],
)
def test_family_is_the_first_word_of_the_model(model, family):
    assert family_of(model) == family


sizes = st.lists(st.integers(1, 12), min_size=12, max_size=40)


@settings(max_examples=50)
@given(sizes=sizes, seed=st.integers(0, 1000))
def test_families_are_never_divided_and_shares_are_close(sizes, seed):
    families = [f"f{k}" for k, size in enumerate(sizes) for _ in range(size)]
    part = split_tasks(pool_of(families), seed, (0.6, 0.15, 0.25))
    for family in set(families):
        assert len({p for p, f in zip(part, families, strict=True) if f == family}) == 1
    counts = np.bincount(part, minlength=3)
    assert counts.min() > 0
    # The largest family may land on top of a part that lacked a single task; a part may lack what two others have so.
    above = counts - np.array([0.6, 0.15, 0.25]) * len(families)
    assert above.max() <= max(sizes)
    assert above.min() >= -2 * max(sizes)


def test_few_families_fall_back_to_source_tasks():
    sources = [f"s{k // 5}" for k in range(100)]
    part = split_tasks(pool_of(["net"] * 100, sources=sources), 0)
    assert sorted(np.bincount(part)) == [15, 25, 60]
    for source in set(sources):
        assert len({p for p, s in zip(part, sources, strict=True) if s == source}) == 1


def test_seeds_give_different_splits():
    pool = pool_of([f"f{k}" for k in range(30)])
    assert np.array_equal(split_tasks(pool, 0), split_tasks(pool, 0))
    assert not np.array_equal(split_tasks(pool, 0), split_tasks(pool, 1))


def test_too_few_tasks_to_split():
    with pytest.raises(DataError, match="2 model families or tasks cannot fill 3 parts"):
        split_tasks(pool_of(["a", "b"]), 0)


def test_settings_do_not_mix_clusters_without_common_tasks():
    allowed = np.zeros((7, 40), bool)
    allowed[:4, :20] = True
    allowed[4:, 20:] = True
    drawn = draw_settings(pool_of(["f"] * 40, allowed), 5, 3, 0)
    assert list(drawn) == list("ABCDE")
    assert len(set(drawn.values())) == 5
    assert all(max(c) < 4 or min(c) >= 4 for c in drawn.values())
    assert drawn == draw_settings(pool_of(["f"] * 40, allowed), 5, 3, 0)
    with pytest.raises(DataError, match="5 sets of 3 of the pool's 7 clusters share enough tasks, 6 settings asked"):
        draw_settings(pool_of(["f"] * 40, allowed), 6, 3, 0)


def test_settings_keep_to_clusters_with_enough_tasks():
    allowed = np.ones((5, 40), bool)
    allowed[3:, :35] = False  # a set of clusters 3, 4 and another shares 40 tasks only through one cluster
    drawn = draw_settings(pool_of(["f"] * 40, allowed), 4, 3, 0)
    assert all(not {3, 4} <= set(c) for c in drawn.values())


def test_later_settings_have_as_few_clusters_of_the_earlier_ones_as_there_can_be():
    """Of nine clusters two sets use at most six: the third can have three of its own; the tenth cannot."""
    pool = pool_of(["f"] * 10, np.ones((9, 10), bool))
    first = draw_settings(pool, 2, 3, 0)
    (name, later), *_ = draw_settings(pool, 4, 3, 0, after=2).items()
    assert name == "C"
    assert not set(later) & {cluster for own in first.values() for cluster in own}
    every = draw_settings(pool, 10, 3, 0)
    assert list(every.items())[:2] == list(first.items())
    few = pool_of(["f"] * 10, np.ones((4, 10), bool))
    assert set(draw_settings(few, 2, 3, 0, after=2).values()).isdisjoint(draw_settings(few, 2, 3, 0).values())
    with pytest.raises(DataError, match=r"4 sets of 3 .* 5 settings asked"):
        draw_settings(few, 3, 3, 0, after=2)


def test_held_out_families_are_whole_and_the_same_whatever_else_a_log_has():
    pool = pool_of([f"f{k % 30}" for k in range(90)])
    held = held_out_tasks(pool, 0.2)
    assert len(set(pool.family[held])) == 6
    assert set(pool.family[held]).isdisjoint(pool.family[~held])
    fewer = pool.select(tasks=np.arange(90) < 60)
    assert (held_out_tasks(fewer, 0.2) == held[:60]).all()


def test_draws_are_of_other_families_than_those_held_out_for_good():
    pool = pool_of([f"f{k % 30}" for k in range(90)])
    names = ("f3", "f4", "f11", "no such family")
    good = held_out_tasks(pool, 0.2, names)
    assert set(pool.family[good]) == set(names[:3])
    assert (held_out_tasks(pool, 0.2, ("no such family",)) == held_out_tasks(pool, 0.2)).all()
    drawn = [held_out_tasks(pool, 0.2, names, draw=k) for k in range(1, 8)]
    for own in drawn:
        assert len(set(pool.family[own])) == 6
        assert not (own & good).any()
    assert len({own.tobytes() for own in drawn}) == 7
    assert np.any(drawn, axis=0).sum() > 60  # seven draws of a fifth reach most of the others


def test_settings_of_many_clusters_are_drawn_without_listing_all():
    allowed = np.ones((300, 10), bool)
    drawn = draw_settings(pool_of(["f"] * 10, allowed), 3, 3, 0)
    assert len({c for s in drawn.values() for c in s}) > 5


def test_interaction_share():
    rng = np.random.default_rng(0)
    product = np.exp(np.add.outer(rng.normal(size=5), rng.normal(size=50)))
    assert interaction_share(product) == pytest.approx(0.0, abs=1e-12)
    product[rng.random(product.shape) < 0.2] = np.nan
    assert interaction_share(product) == pytest.approx(0.0, abs=1e-12)
    noise = np.exp(rng.normal(size=(5, 2000)))
    assert interaction_share(noise) == pytest.approx(4 / 5, abs=0.02)  # the tasks' means take a fifth of it


def test_description_is_plain_and_true():
    allowed = np.ones((4, 30), bool)
    allowed[0, :15] = False
    pool = dataclasses.replace(pool_of([f"f{k % 5}" for k in range(30)], allowed), emulated=("failures",))
    report = describe(pool)
    assert (report["tasks"], report["clusters"], report["families"]) == (30, 4, 5)
    assert report["filled_share"] == 105 / 120
    assert report["reliability"]["mean"] == pytest.approx(0.9)
    assert report["emulated"] == ["failures"]
    assert report["seconds"]["max"] == np.nanmax(pool.T)


@pytest.mark.parametrize("seed", range(10))
def test_a_giant_family_does_not_upset_the_shares(seed):
    families = ["giant"] * 40 + [f"f{k}" for k in range(60)]
    assert np.bincount(split_tasks(pool_of(families), seed, (0.6, 0.15, 0.25))).tolist() == [60, 15, 25]
