"""Exceptions of mfcp: one type per remedy, each message naming what to mend."""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType, TracebackType


class MfcpError(Exception):
    """Base of every error that mfcp raises on purpose; `exit_code` is the command line's."""

    exit_code = 1


class DataError(MfcpError):
    """A log, table or file is wrong: mend the data (the message names file, row or column)."""

    exit_code = 2


class UnknownNameError(DataError):
    """A request names a cluster, graph or task that is not there: name one that is (the message lists them)."""


class SettingsError(MfcpError):
    """A key of params.yaml or an option is wrong: mend the settings (the message names the key)."""

    exit_code = 2


class InfeasibleError(MfcpError):
    """No plan meets the constraints: lower gamma or add a cluster (the message gives both numbers)."""

    exit_code = 2


class SolverError(MfcpError):
    """A solver failed on a valid problem: raise its limits or report a bug."""


EXTRAS = {
    **dict.fromkeys(("dvc", "great_expectations", "mlflow", "prefect"), "pipeline"),
    **dict.fromkeys(
        ("fastapi", "fastapi_offline", "h11", "prometheus_client", "river", "sqlalchemy", "starlette", "uvicorn"),
        "platform",
    ),
    **dict.fromkeys(("torch_geometric", "transformers"), "graphs"),
}
"""Package → the extra of mfcp that installs it."""


def quoted(value: Any, most: int = 80) -> str:
    """A wrong value as an error tells it: no more characters of it than help."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def in_shell(path: object) -> str:
    """A path as a word of a command that people copy: in quotes where it has spaces and the like."""
    return shlex.quote(str(path))


def guarded(action: Callable[[], Any]) -> int:
    """Exit code of an action; errors meant for people become one line on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal of another alphabet shows names of strangers escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    interrupts = _Interrupts()
    try:
        with interrupts, _shown_on_terminals():
            action()
            if sys.stdout is not None:  # as under `>&-`
                sys.stdout.flush()
    except MfcpError as error:
        print(f"error: {_without_controls(str(error))}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRAS:
            raise
        print(f"error: this needs {package}: pip install 'mfcp[{EXTRAS[package]}]'", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of standard output went away, as `| head` does
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"error: {error.strerror}: nothing more can be written; make room and run again", file=sys.stderr)
        _discard_output()
        return 2
    except (KeyboardInterrupt, Exception) as error:
        if not (interrupts.came or isinstance(error, KeyboardInterrupt)):
            raise
        print(_INTERRUPTED, file=sys.stderr)
        return 130
    return 0


_INTERRUPTED = "interrupted: earlier results are unchanged; run again to go on"


def quiet_interrupts() -> None:
    """Have this program end with one line when it is interrupted outside of `guarded`, as while it imports."""
    others = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            print(_INTERRUPTED, file=sys.stderr)
        else:
            others(kind, error, trace)

    sys.excepthook = tell


# What a terminal obeys: it clears, moves, renames, or shows what follows from right to left. Colours pass, since tables
# have them, and so does a return at the start, which shows a line anew.
_CONTROLS = re.compile(
    r"\x1b(?!\[[\d;]*m)|(?<=.)\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]",
    re.DOTALL,
)


def _without_controls(text: str) -> str:
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


class _Terminal:
    """Standard output where people look, on which names of strangers are text and nothing else."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Print, controls escaped."""
        return int(self._stream.write(_without_controls(text)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _shown_on_terminals() -> AbstractContextManager[Any]:
    """Files and pipes get what is printed to the letter."""
    if sys.stdout is None or not sys.stdout.isatty():
        return nullcontext()
    return redirect_stdout(_Terminal(sys.stdout))


def _discard_output() -> None:
    """Nothing more is written to standard output, where it would fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Interrupt(KeyboardInterrupt):
    """Sends itself again if it ends where it fell, unseen by Python: numpy drops all errors while it makes a text."""

    def __init__(self, frame: FrameType | None, send: Callable[[], None]) -> None:
        super().__init__()
        self._frame, self._send = frame, send

    def __del__(self) -> None:
        seen = self.__traceback__
        while seen is not None and seen.tb_frame is not self._frame:
            seen = seen.tb_next
        if seen is None:
            self._send()


class _Interrupts:
    """Ctrl-C while an action runs; `came` tells whether it was pressed.

    Where it falls into a call from compiled code, Python prints a traceback and goes on, and compiled code may drop it
    without a word: then it is sent again. Or a library makes another error of it, which `came` tells from its own.
    """

    def __init__(self) -> None:
        self.came, self._hook = False, sys.unraisablehook
        self._again: threading.Timer | None = None

    def __enter__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            sys.unraisablehook = self._lost

    def __exit__(self, *_: object) -> None:
        if self._again is not None:
            self._again.cancel()
        if sys.unraisablehook == self._lost:
            sys.unraisablehook = self._hook
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, _: int, frame: FrameType | None) -> None:
        self.came = True
        raise _Interrupt(frame, self._send)

    def _lost(self, what: sys.UnraisableHookArgs) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            self._send()
        else:
            self._hook(what)

    def _send(self) -> None:
        main = threading.main_thread().ident  # only there signals become exceptions
        self._again = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))  # when the call is over
        self._again.daemon = True
        self._again.start()
