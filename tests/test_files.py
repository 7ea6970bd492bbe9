"""Files and folders are whole or absent: whatever goes wrong, the earlier result stays."""

import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy
from running import forked

from mfcp import files
from mfcp.border.json_text import read_json
from mfcp.errors import DataError, SettingsError
from mfcp.files import (
    locked,
    output_folder,
    remove_folder,
    replacing,
    replacing_files,
    replacing_folder,
    sqlite_url,
    write_json,
)


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(path, {"new": float("nan")})
    with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert read_json(path) == {"old": 1}
    assert listing(tmp_path) == ["a.json"]


def test_a_new_file_has_the_usual_permissions(tmp_path):
    write_json(tmp_path / "a.json", 1)
    (tmp_path / "b").write_text("1")
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == stat.S_IMODE((tmp_path / "b").stat().st_mode)


def test_a_folder_is_replaced_whole(tmp_path):
    target = tmp_path / "out"
    with replacing_folder(target) as folder:
        (folder / "one").write_text("1")
    with pytest.raises(KeyboardInterrupt), replacing_folder(target) as folder:  # noqa: PT012
        (folder / "two").write_text("2")
        raise KeyboardInterrupt
    assert listing(tmp_path) == ["out", "out/one"]
    with replacing_folder(target) as folder:
        (folder / "three").write_text("3")
    assert listing(tmp_path) == ["out", "out/three"]


def test_files_of_a_folder_are_replaced_together(tmp_path):
    """Its other files stay, as somebody else's may."""
    target = tmp_path / "out"
    with replacing_files(target) as folder:
        (folder / "one").write_text("1")
        (folder / "two").write_text("1")
    (target / "other").touch()
    with pytest.raises(KeyboardInterrupt), replacing_files(target) as folder:  # noqa: PT012
        (folder / "one").write_text("2")
        raise KeyboardInterrupt
    assert listing(tmp_path) == ["out", "out/one", "out/other", "out/two"]
    assert (target / "one").read_text() == "1"
    with replacing_files(target, "two", "one", "three") as folder:
        write_json(folder / "one", 2)
    assert listing(tmp_path) == ["out", "out/one", "out/other"]
    assert (target / "one").read_text() == "2\n"
    with pytest.raises(DataError, match=rf"{target}/one: cannot write \(No space left"):  # noqa: SIM117
        with replacing_files(target) as folder, replacing(folder / "one"):
            raise OSError(28, "No space left on device")
    assert listing(tmp_path) == ["out", "out/one", "out/other"]


def test_a_full_disk_inside_a_folder_names_the_folder(tmp_path):
    target = tmp_path / "out"
    with pytest.raises(DataError, match=rf"{target}/a.json: cannot write \(No space left") as caught:  # noqa: SIM117
        with replacing_folder(target) as folder, replacing(folder / "a.json"):
            raise OSError(28, "No space left on device")
    assert "free space" in str(caught.value)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("write", ["file", "folder", "files", "try"])
def test_a_read_only_folder_is_named(tmp_path, write):
    """In a child without root's rights: root may write anywhere."""
    folder = tmp_path / "locked"
    folder.mkdir()
    for parent in tmp_path.parents:
        if parent != parent.parent and os.geteuid() == 0 and "pytest" in parent.name:
            parent.chmod(0o755)
    tmp_path.chmod(0o755)
    folder.chmod(0o555)

    def write_there(tell):
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        try:
            if write == "file":
                write_json(folder / "a.json", 1)
            elif write == "folder":
                with replacing_folder(folder / "out"):
                    pass
            elif write == "files":
                with replacing_files(folder):
                    pass
            else:
                output_folder(folder)
        except DataError as error:
            tell(error)

    with forked(write_there) as child:
        said = child.told.read()
    assert "locked" in said
    assert "cannot write (Permission denied); free space or choose another folder" in said
    assert listing(folder) == []


def test_a_folder_is_no_file_to_write_to(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="out: a folder; expected the name of a file"):
        write_json(tmp_path / "out", 1)
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe"])
def test_damaged_json_is_named(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.json: not valid JSON"):
        read_json(tmp_path / "a.json")


def test_what_a_killed_process_has_left_goes_and_what_a_live_one_holds_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_cleared", set())
    (tmp_path / ".runs.mfcp-dead0000.csv").write_text("half")
    (tmp_path / ".raw.mfcp-dead0000").mkdir()
    (tmp_path / ".raw.mfcp-dead0000" / "a").touch()
    (tmp_path / ".hidden").touch()  # not ours
    with replacing(tmp_path / "live.csv") as live:
        (tmp_path / "new").write_text("whole")
        os.replace(tmp_path / "new", live)  # as safetensors writes: another file under the name that was given
        monkeypatch.setattr(files, "_cleared", set())  # as another process
        with replacing(tmp_path / "other.csv") as other:
            other.touch()
            assert set(listing(tmp_path)) == {".hidden", live.name, other.name}
            with replacing_folder(tmp_path / "out") as folder:
                monkeypatch.setattr(files, "_cleared", set())
                write_json(tmp_path / "third.csv", 3)
                assert folder.is_dir()
    assert listing(tmp_path) == [".hidden", "live.csv", "other.csv", "out", "third.csv"]


def test_who_waits_for_a_lock_does_not_hold_one_that_was_taken_away(tmp_path):
    def held():
        with locked(tmp_path / "s" / ".lock", wait_s=10):
            assert (tmp_path / "s" / ".lock").exists()
            with pytest.raises(BlockingIOError), locked(tmp_path / "s" / ".lock"):
                pass
            return True

    with ThreadPoolExecutor(1) as pool:
        with locked(tmp_path / "s" / ".lock"):
            waits = pool.submit(held)
            time.sleep(0.2)  # it has opened the file by now
            remove_folder(tmp_path / "s")
        assert waits.result(10)


@pytest.mark.parametrize("swaps", [True, False])
def test_a_folder_is_replaced_with_and_without_a_swap(tmp_path, monkeypatch, swaps):
    if not swaps:
        monkeypatch.setattr(files, "_renameat2", lambda: None)
    for text in ("old", "new"):
        with replacing_folder(tmp_path / "out") as folder:
            (folder / text).write_text(text)
    assert listing(tmp_path) == ["out", "out/new"]


@pytest.mark.parametrize("name", ["a b", "a#b", "a%20b", "ä;é", "p&q=1"])
def test_the_url_of_a_database_leads_to_its_file(tmp_path, name):
    path = tmp_path / name / "kept.db"
    path.parent.mkdir()
    with sqlalchemy.create_engine(sqlite_url(path)).begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t (x)"))
    assert listing(tmp_path) == [name, f"{name}/kept.db"]


def test_a_url_would_end_at_a_question_mark(tmp_path):
    with pytest.raises(SettingsError, match=r"a\?b/kept\.db: a question mark in the path .* rename the folder"):
        sqlite_url(tmp_path / "a?b" / "kept.db")
