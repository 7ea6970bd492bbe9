"""A desk in a process of its own, so that neither its reading nor its computing holds up who else asks.

Imports nothing heavy: the process that listens is there at once, and stays small.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import queue
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.errors import DataError, MfcpError
from mfcp.platform.service.protocol import Answer, ServeSettings
from mfcp.threads import follow_parent

if TYPE_CHECKING:
    from mfcp.platform.service.champion import Champion
    from mfcp.platform.service.desk import Desk

LOG = logging.getLogger("mfcp.serve")
_NICE = 5  # the process that listens goes first
_PAUSE_S = 2.0  # before a process that ended is started again
_GONE = "the process that computes has ended and is started again; come again"


@dataclass(frozen=True)
class Origin:
    """Where the release that decides comes from: a folder of one, or a platform's home."""

    folder: Path | None = None
    home: Path | None = None

    def champion(self, graphs: int) -> Champion:
        """See `Champion`; errors as its makers."""
        from mfcp.platform.service.champion import Champion
        from mfcp.platform.state.home import open_store

        if self.folder is not None:
            return Champion.of_folder(self.folder, graphs=graphs)
        assert self.home is not None
        return Champion.of_platform(self.home, open_store(self.home), graphs=graphs)


class RemoteDesk:
    """A `Desk` in another process, which is started again when it ends.

    Args:
        origin: of the release.
        settings: limits.
        token: whether clients need one.

    Attributes:
        failed: why the first process could not begin; nothing helps but to end.
    """

    def __init__(self, origin: Origin, settings: ServeSettings, *, token: bool) -> None:
        self._given = (origin, settings, token)
        self.failed: str | None = None
        self._state: dict[str, Any] = {"status": "not ready", "reason": "starting: the champion is being loaded"}
        self._began = False
        self._start()

    @property
    def state(self) -> dict[str, Any]:
        """See `Answering`."""
        return self._state

    def refresh(self) -> None:
        """See `Answering`: what the process has told last, and another process where it has ended."""
        alive = self._process.is_alive()
        with contextlib.suppress(EOFError, OSError):
            while self._status.poll():
                self._heed(json.loads(self._status.recv_bytes()))
        if not alive and self.failed is None:
            self._state = {"status": "not ready", "reason": _GONE}
            if time.monotonic() >= self._again:
                LOG.error("the process that computes ended with %s and is started again", self._process.exitcode)
                self._start()

    def _heed(self, told: dict[str, Any]) -> None:
        if "failed" not in told:
            self._state, self._began = told, True
        elif self._began:
            self._state = {"status": "not ready", "reason": told["failed"]}
        else:
            self.failed = told["failed"]

    def answer(self, name: str, body: bytes, request: str) -> Answer:
        """See `Answering`.

        Raises:
            MfcpError: the process has ended.
        """
        lines, process = self._lines, self._process
        while True:
            try:
                line = lines.get(timeout=0.2)
                break
            except queue.Empty:
                if not process.is_alive():
                    raise MfcpError(_GONE) from None
        try:
            line.send_bytes(json.dumps([name, request]).encode())
            line.send_bytes(body)
            status, tasks = json.loads(line.recv_bytes())
            answer = Answer(status, line.recv_bytes(), tasks)
        except (EOFError, OSError):
            raise MfcpError(_GONE) from None
        lines.put(line)
        return answer

    def document(self) -> dict[str, Any]:
        """See `Answering`; errors as `answer`."""
        found: dict[str, Any] = json.loads(self.answer("", b"", "").content)
        return found

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join(5)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(self._given[1].threads)]
        self._status, status = context.Pipe(duplex=False)
        theirs = [their for _, their in pairs]
        os.environ.setdefault("MALLOC_ARENA_MAX", "1")  # glibc would keep what a large request took, thread by thread
        self._process = context.Process(target=work, args=(*self._given, theirs, status), name="desk", daemon=True)
        self._process.start()
        for their in (*theirs, status):
            their.close()  # so that its end is seen here
        self._lines: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        for ours, _ in pairs:
            self._lines.put(ours)
        self._again = time.monotonic() + _PAUSE_S


def work(origin: Origin, settings: ServeSettings, token: bool, lines: list[Connection], status: Connection) -> None:
    """The process: a thread for each line, and once a second what /health is to say."""
    follow_parent()
    os.nice(_NICE)
    from mfcp.compiling import prepare_ahead

    prepare_ahead()  # while the rest is imported and the release is read
    from mfcp.platform.service.desk import Desk
    from mfcp.threads import one_blas_thread

    try:
        desk = Desk(origin.champion(settings.graphs), settings, token=token)
    except MfcpError as error:
        status.send_bytes(json.dumps({"failed": str(error)}).encode())
        return
    with one_blas_thread():
        for line in lines:
            threading.Thread(target=_answer, args=(desk, line), daemon=True).start()
        while True:
            desk.refresh()
            status.send_bytes(json.dumps(desk.state).encode())
            time.sleep(1.0)


def _answer(desk: Desk, line: Connection) -> None:
    while True:
        name, request = json.loads(line.recv_bytes())
        body = line.recv_bytes()
        told = desk.answer(name, body, request) if name else Answer(200, json.dumps(desk.document()).encode())
        del body
        line.send_bytes(json.dumps([told.status, told.tasks]).encode())
        line.send_bytes(told.content)


def origin_of(folder: Path | None, home: Path) -> Origin:
    """Of a release's folder, else of a platform.

    Raises:
        MfcpError: there is no such folder.
    """
    if folder is None:
        from mfcp.platform.state.home import require_platform

        require_platform(home)
        return Origin(home=home)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such release; `mfcp release` makes one")
    return Origin(folder=folder)
