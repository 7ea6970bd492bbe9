"""A token that could be guessed, and an address that cannot be had."""

import pytest

from mfcp.commands.operating.listening import listen, read_token
from mfcp.errors import DataError, SettingsError

TOKEN = "a-token-of-some-length"


def test_a_token_that_could_be_guessed_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("MFCP_TOKEN", raising=False)
    assert read_token(None) is None
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert read_token(tmp_path / "token") == TOKEN
    with pytest.raises(DataError, match="cannot read"):
        read_token(tmp_path / "none")
    monkeypatch.setenv("MFCP_TOKEN", "short")
    with pytest.raises(SettingsError, match="5 characters"):
        read_token(None)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 99999), ("203.0.113.7", 0)])
def test_an_address_that_cannot_be_had_is_an_error_with_a_remedy(host, port):
    with pytest.raises(SettingsError, match=rf"{host}, port {port}: .*give another with --port"):
        listen(None, host, port, said="never")
