"""Where a platform lives."""

from pathlib import Path

import pytest

from mfcp.errors import MfcpError
from mfcp.platform.state.home import home_folder, open_store


def test_the_folder_is_the_one_given_else_of_the_environment_else_beside(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MFCP_HOME", str(tmp_path / "set"))
    assert home_folder("given") == tmp_path / "given"
    assert home_folder() == tmp_path / "set"
    monkeypatch.delenv("MFCP_HOME")
    assert home_folder() == tmp_path / "platform"


def test_a_new_platform_gets_a_database_and_an_old_one_waits_for_its_own(monkeypatch, tmp_path):
    monkeypatch.delenv("MFCP_DATABASE", raising=False)
    with pytest.raises(MfcpError, match="no platform here"):
        open_store(tmp_path)  # any folder that somebody names by mistake
    assert not list(tmp_path.iterdir())
    open_store(tmp_path, new=True)
    open_store(tmp_path)
    assert (tmp_path / "platform.db").is_file()
    (tmp_path / "platform.db").unlink()
    (tmp_path / "repo").mkdir()
    with pytest.raises(MfcpError, match=r"cannot be used for 0\.2 s"):
        open_store(tmp_path, wait_s=0.2).counts()
    assert not (tmp_path / "platform.db").exists()


def test_no_platform_is_told_with_how_to_make_one():
    with pytest.raises(MfcpError, match="make platform"):
        open_store(Path("/nonexistent/platform"))
