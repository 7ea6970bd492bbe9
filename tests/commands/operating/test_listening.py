"""A token that could be guessed, and an address that cannot be had."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from mfcp.commands.operating import listening
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


PROGRAM = """
import sys
from mfcp.commands.operating import listening

async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

listening.HEAD_S = 1.0
listening.listen(app, "127.0.0.1", 0, said="at")
"""


def test_who_sends_no_head_is_not_waited_for():
    """Neither at the beginning of a connection nor for a second request on it; a connection in between may rest."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(re.search(r":(\d+) ", server.stdout.readline())[1])
            request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            for first, seconds in ((b"", 1), (b"GET / HT", 1), (request + b"GET /", 1)):
                with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                    begin = time.monotonic()
                    client.sendall(first)
                    while client.recv(1000):
                        pass
                    assert seconds - 0.2 < time.monotonic() - begin < 15
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                for _ in range(2):
                    client.sendall(request)
                    reply = b""
                    while not reply.endswith(b"ok"):
                        reply += client.recv(1000)
                    assert reply.startswith(b"HTTP/1.1 200 ")
                    time.sleep(2)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)


def test_answers_do_not_wait_for_what_a_client_acknowledges() -> None:
    """Nagle's algorithm is off on accepted connections; with it on, each answer takes 40 ms longer."""

    async def accepted() -> bool:
        seen: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            seen.set_result(bool(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        with listening._bound("127.0.0.1", 0) as taken:
            server = await asyncio.start_server(connected, sock=taken)
            async with server:
                _, writer = await asyncio.open_connection(*taken.getsockname())
                writer.close()
                return await asyncio.wait_for(seen, 30)

    assert asyncio.run(accepted())
