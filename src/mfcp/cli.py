"""The `mfcp` command: one file of `mfcp.commands` per sub-command.

Those files import what they need when a command runs, so that `--help` answers at once. They are imported themselves
where Ctrl-C is answered.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from mfcp.environment import collect_seldom, same_instructions
from mfcp.errors import SettingsError, guarded


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, and exit: 0 on success, 2 on bad usage or input, 1 on an internal failure, 130 after Ctrl-C."""
    sys.exit(guarded(lambda: _run(arguments)))


def _run(arguments: list[str] | None) -> None:
    collect_seldom()
    options = make_parser().parse_args(arguments)
    if not getattr(options, "native", False):
        same_instructions()  # before the command imports what computes
    options.run(options)


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse, but what is not known is told by the command that does not know it."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from difflib import get_close_matches

            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"{' '.join(unknown)}: not known here{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """What is wrong in one line like every other error, without a page of usage before it."""
        raise SettingsError(f"{message.removeprefix('argument ')}; see `{self.prog} --help`")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and end; it is looked up only then."""
        from importlib.metadata import version

        print(f"mfcp {version('mfcp')}")
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    from mfcp.commands import (
        benchmark,
        calibrate,
        capture,
        check,
        completion,
        init,
        match,
        paper,
        profile,
        release,
        report,
        solve,
        table,
    )
    from mfcp.commands.operating import doctor, platform, serve, ui
    from mfcp.commands.simulating import simulate

    parser = _Parser(prog="mfcp", description="Predict and match deep-learning tasks to third-party clusters.")
    parser.add_argument(
        "--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="show the version and exit"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (
        *(init, check, benchmark, release, match, solve),
        *(capture, calibrate, profile, paper, platform, serve, ui, simulate, table, report, doctor),
    ):
        command.add_parser(commands)
    completion.add_parser(commands, parser)
    return parser


if __name__ == "__main__":
    main()
