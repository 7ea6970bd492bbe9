"""`mfcp completion`: what makes a shell complete commands, options and files."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(commands: Any, whole: argparse.ArgumentParser) -> None:
    """The sub-command and its option; `whole` is what is completed."""
    parser = commands.add_parser(
        "completion",
        help="print what makes a shell complete mfcp's commands and options",
        description='For this shell: eval "$(mfcp completion bash)". For good: write it where the shell looks, '
        "~/.local/share/bash-completion/completions/mfcp or a folder of zsh's fpath, as _mfcp.",
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=partial(run, whole))


def run(whole: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Print it."""
    import shtab

    print(shtab.complete(whole, options.shell))
