"""`mfcp ui`: the page of a platform, or of one release, on this machine; imports nothing heavy until it runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mfcp.commands.operating.listening import few_threads, listen, read_token
from mfcp.commands.reading import add_option, load_members
from mfcp.errors import SettingsError

HOST = "127.0.0.1"


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "ui",
        help="see a platform in a browser, and try what another gamma, price or cluster would change",
        description="Shows rounds as Gantt charts, clusters, releases and promotions, says in plain words why a task "
        "runs where it runs, and matches again under other wishes. It reads only, unless a token allows promotions. "
        "It answers this machine alone: from elsewhere, forward its port with ssh -L.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--home", default="", metavar="DIR", help="folder of a platform (MFCP_HOME, else ./platform)")
    which.add_argument("--model", type=Path, metavar="DIR", help="a release, for instance data/release; no platform")
    parser.add_argument(
        "--tasks", type=Path, metavar="PATH", help="with --model: tasks to try, a table or a folder as of submit"
    )
    parser.add_argument("--port", type=int, default=8050, metavar="N", help="default: 8050; 0 takes a free one")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="allow promotions to who knows this token (default: MFCP_TOKEN)"
    )
    add_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Serve until interrupted."""
    load_members(options)
    token = read_token(options.token_file)
    if options.tasks is not None and options.model is None:
        raise SettingsError("--tasks goes with --model; on a platform, hand tasks in with `mfcp platform submit`")
    few_threads()
    from mfcp.platform.page.app import create_app
    from mfcp.platform.page.board import Board
    from mfcp.platform.state.home import home_folder, open_store
    from mfcp.threads import one_blas_thread

    if options.model is not None:
        board = Board.of_release(options.model, None if options.tasks is None else _tasks(options.tasks))
    else:
        home = home_folder(options.home)
        board = Board.of_platform(home, open_store(home))
    board.refresh()  # what is imported and compiled at first is, before the first page
    with one_blas_thread():
        listen(create_app(board, token=token), HOST, options.port, said="the page is at")


def _tasks(path: Path) -> Any:
    from mfcp.data.log.tables import read_new_tasks
    from mfcp.data.log.zoo_tasks import with_zoo_models

    return with_zoo_models(read_new_tasks(path))
