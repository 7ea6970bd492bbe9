"""What a command needs that answers over HTTP: a token, and a server on an address."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.errors import DataError, SettingsError

if TYPE_CHECKING:
    import asyncio

_LEAST = 16  # characters of a token
HEAD_S = 10.0  # in which the head of a request must have arrived


def read_token(path: Path | None) -> str | None:
    """The token of a file, else of MFCP_TOKEN, None where neither is given.

    Raises:
        DataError: no such file.
        SettingsError: a token that could be guessed.
    """
    if path is not None:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"--token-file {path}: cannot read ({error})") from None
    elif "MFCP_TOKEN" in os.environ:
        token = os.environ["MFCP_TOKEN"].strip()
    else:
        return None
    if len(token) < _LEAST or not token.isascii():
        raise SettingsError(f"the token has {len(token)} characters; expected at least {_LEAST}, of ASCII")
    return token


def few_threads() -> None:
    """Let each request compute with one thread of BLAS, since requests share the cores; to be called before torch."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


def listen(app: Any, host: str, port: int, *, said: str, over: Callable[[], bool] = lambda: False) -> None:
    """Serve until interrupted, or until it is `over`; `said` is printed before the address, once it is taken.

    Raises:
        SettingsError: the address cannot be had.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def on_tick(self, counter: int) -> bool:
            return await super().on_tick(counter) or over()

    with _bound(host, port) as taken:
        address = f"[{host}]" if ":" in host else host
        print(f"{said} http://{address}:{taken.getsockname()[1]} (Ctrl-C ends it)", flush=True)
        config = uvicorn.Config(
            app, http=_impatient(), access_log=False, timeout_keep_alive=30, log_level="warning", server_header=False
        )
        Server(config).run(sockets=[taken])


def _impatient() -> type[asyncio.Protocol]:
    """uvicorn's HTTP, for clients that send the head of a request within `HEAD_S`; others would each hold a connection
    for ever, and there are only so many.
    """
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        _due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._wait()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.trailing_data[0]:  # the beginning of a next request came with this one
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._wait(over=True)
            super().connection_lost(exc)

        def _wait(self, *, over: bool = False) -> None:
            if self._due is not None and (over or self.conn.their_state is not h11.IDLE):
                self._due.cancel()
                self._due = None
            elif self._due is None and not over and self.conn.their_state is h11.IDLE:
                self._due = self.loop.call_later(HEAD_S, self.transport.close)

    return Impatient


def _bound(host: str, port: int) -> socket.socket:
    taken = None
    try:
        if not 0 <= port <= 65535:  # getaddrinfo takes it modulo that
            raise OSError("expected 0 to 65535")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        # With its protocol: asyncio else leaves Nagle's algorithm on, and an answer waits 40 ms for the client's ACK.
        taken = socket.socket(family, kind, protocol)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen()  # a client that is told the address waits for the server instead of being refused
    except OSError as error:
        if taken is not None:
            taken.close()
        why = error.strerror or error
        raise SettingsError(f"{host}, port {port}: {why}; give another with --port, 0 for any that is free") from None
    return taken
