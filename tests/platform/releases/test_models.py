"""Releases of a platform: whole or absent, refused by hash, promoted and rolled back."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running import forked, until

from mfcp.errors import DataError, MfcpError
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Store
from mfcp.release.model import MANIFEST, Release


@pytest.fixture
def models(home: Path, store: Store) -> Models:
    return Models(home, store)


def another(folder: Path, good: Path, name: str) -> Path:
    """A copy of a release that counts as another one: its manifest has a further line."""
    shutil.copytree(good, folder / name)
    manifest = folder / name / MANIFEST
    manifest.write_text(manifest.read_text() + "\n" * len(name))
    return folder / name


def damage(models: Models, version: str) -> None:
    path = models.folder / version / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def events(store: Store) -> list[tuple[str, str]]:
    notes = store.undelivered()
    return [(name, content["version"]) for name, content in zip(notes["name"], notes["content"], strict=True)]


def test_the_first_release_decides_and_the_newest_other_challenges(
    models: Models, store: Store, good: Path, bad: Path
) -> None:
    assert models.champion() is models.challenger() is models.current() is None
    first = models.add(good, {"excess": 0.1})
    assert models.add(good, {}) == first  # again changes nothing
    champion = models.champion()
    assert champion is not None
    assert champion.version == first == models.current()
    assert models.challenger() is None
    second = models.add(bad, {})
    challenger = models.challenger()
    assert challenger is not None
    assert challenger.version == second
    assert models.current() == first
    assert list(store.models()["metrics"]) == [{"excess": 0.1}, {}]
    assert sorted(path.name for path in models.folder.iterdir()) == sorted([".lock", first, second])
    assert Release.load(models.folder / first).version == first


def test_roll_backs_undo_promotions_one_by_one_and_what_was_rolled_back_does_not_challenge(
    models: Models, store: Store, good: Path, tmp_path: Path
) -> None:
    v1, v2, v3 = (models.add(another(tmp_path, good, name), {}) for name in ("r", "rr", "rrr"))
    with pytest.raises(MfcpError, match="nothing to roll back to"):
        models.rollback("bad")
    models.promote(v2, "better")
    models.promote(v3, "better still")
    models.promote(v3, "twice says nothing")
    assert (models.rollback("alarm"), models.current()) == (v2, v2)
    assert models.challenger() is None
    assert (models.rollback("alarm"), models.current()) == (v1, v1)
    models.promote(v3, "after all")
    assert models.rollback("alarm") == v1
    assert list(store.champions()["action"]) == ["promote"] * 3 + ["rollback"] * 2 + ["promote", "rollback"]
    assert events(store)[-1] == ("rollback", v1)
    with pytest.raises(DataError, match=r"release 'v9': not known here; known: .*"):
        models.promote("v9", "")


def test_a_damaged_champion_is_refused_and_the_one_before_decides(
    models: Models, store: Store, good: Path, bad: Path
) -> None:
    first, second = models.add(good, {}), models.add(bad, {})
    models.promote(second, "")
    damage(models, second)
    for _ in range(3):
        champion = models.champion()
        assert champion is not None
        assert champion.version == first
    assert events(store)[2:] == [("model_refused", second)]  # said once, not every round
    assert "model.safetensors: damaged or changed" in store.models()["refused"][1]
    with pytest.raises(DataError, match="damaged or changed"):
        models.promote(second, "")

    models.add(bad, {})  # mended
    champion = models.champion()
    assert champion is not None
    assert champion.version == second == models.current()
    assert store.models()["refused"].isna().all()

    damage(models, second)
    shutil.rmtree(models.folder / first)
    with pytest.raises(MfcpError, match="no champion is whole"):
        models.champion()
    with pytest.raises(MfcpError, match="nothing to roll back to"):
        models.rollback("")


def test_another_release_in_the_place_of_the_champion_is_refused(
    models: Models, store: Store, good: Path, bad: Path
) -> None:
    first, second = models.add(good, {}), models.add(bad, {})
    models.promote(second, "")
    shutil.rmtree(models.folder / second)
    shutil.copytree(models.folder / first, models.folder / second)
    champion = models.champion()
    assert champion is not None
    assert champion.version == first
    assert events(store)[-1] == ("model_refused", second)
    assert f"holds release {first} instead of {second}" in store.models()["refused"][1]
    with pytest.raises(DataError, match="put the right one in its place"):
        models.promote(second, "")


def test_a_damaged_challenger_does_not_challenge(models: Models, store: Store, good: Path, bad: Path) -> None:
    models.add(good, {})
    damage(models, second := models.add(bad, {}))
    assert models.challenger() is None
    assert events(store)[-1] == ("model_refused", second)


def test_a_release_that_is_not_whole_is_not_taken_in(models: Models, store: Store, good: Path, tmp_path: Path) -> None:
    broken = another(tmp_path, good, "broken")
    (broken / "model.json").unlink()
    with pytest.raises(DataError, match=r"model\.json: no such file"):
        models.add(broken, {})
    assert store.models().empty
    assert not models.folder.exists()


def test_a_full_disk_leaves_nothing_half_written(
    models: Models, store: Store, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = []

    def full(source: Path, target: Path) -> None:
        copies.append(target)
        if len(copies) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        Path(target).write_bytes(Path(source).read_bytes())

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", full)
        with pytest.raises(DataError, match=r"cannot write \(No space left on device\); free space"):
            models.add(good, {})
    assert [path.name for path in models.folder.iterdir()] == [".lock"]
    assert store.models().empty
    assert models.add(good, {}) == models.current()


def test_a_process_killed_while_it_copies_leaves_no_release(
    models: Models, store: Store, home: Path, good: Path
) -> None:
    def add(tell: Callable[[str], None]) -> None:
        whole = shutil.copyfile

        def slow(source: Path, target: Path) -> None:
            whole(source, target)
            tell("copied")
            time.sleep(60)

        shutil.copyfile = slow  # type: ignore[assignment]
        Models(home, Store(f"sqlite:///{home}/platform.db")).add(good, {})

    with forked(add) as process:
        assert process.told.readline() == "copied\n"
        process.kill()
    assert store.models().empty
    assert models.current() is None
    until(lambda: len(list(models.folder.glob(".*.*"))) == 1, "the half copy lies under another name")
    version = models.add(good, {})
    assert sorted(path.name for path in models.folder.iterdir()) == [".lock", version]
