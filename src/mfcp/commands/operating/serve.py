"""`mfcp serve`: the decision service on an address; imports nothing heavy until it runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mfcp.commands.operating.listening import few_threads, listen, read_token
from mfcp.commands.reading import add_option, load_members
from mfcp.errors import DataError, SettingsError

LOOPBACK = ("127.0.0.1", "::1", "localhost")  # as those of the service, which is imported when it runs


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "serve",
        help="answer predict, match and explain over HTTP",
        description="Answers POST /v1/predict, /v1/match and /v1/explain with the champion of a platform, or with one "
        "release; GET /health, /metrics, /docs. An address that others can reach needs a token.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--home", default="", metavar="DIR", help="folder of a platform (MFCP_HOME, else ./platform)")
    which.add_argument("--model", type=Path, metavar="DIR", help="a release, for instance data/release; no platform")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1, this machine only")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a further name by which clients call it, * for any (on loopback: only those of this machine; else any)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="default: 8000; 0 takes a free one")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="holds the token (default: of MFCP_TOKEN)")
    parser.add_argument("--tasks", type=int, metavar="N", help="tasks of a request at most (1000)")
    parser.add_argument("--body-mib", type=float, metavar="X", help="size of a request at most (32)")
    parser.add_argument("--threads", type=int, metavar="N", help="requests computed at once (2)")
    add_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Serve until interrupted."""
    load_members(options)
    token = read_token(options.token_file)
    if options.host not in LOOPBACK and token is None:
        raise SettingsError(
            f"--host {options.host} can be reached by others: give a token in MFCP_TOKEN or --token-file, or leave "
            "--host out"
        )
    few_threads()
    from pydantic import ValidationError

    from mfcp.platform.service.protocol import ServeSettings
    from mfcp.platform.service.remote import RemoteDesk, origin_of
    from mfcp.platform.state.home import home_folder
    from mfcp.registry import explain

    given = {name: getattr(options, name) for name in ("tasks", "body_mib", "threads")}
    try:
        section = ServeSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise SettingsError(explain(error)) from None
    origin = origin_of(options.model, home_folder(options.home) if options.model is None else Path())
    hosts = frozenset([*options.allow_host, *(LOOPBACK if options.host in LOOPBACK else "*")])
    desk = RemoteDesk(origin, section, token=token is not None)
    try:
        from mfcp.platform.service.api import create_app  # for a second, beside the process that computes

        app = create_app(desk, section, token=token, hosts=hosts)
        listen(app, options.host, options.port, said="answers at", over=lambda: desk.failed is not None)
    finally:
        desk.close()
    if desk.failed is not None:
        raise DataError(desk.failed)
