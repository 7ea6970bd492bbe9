"""`mfcp release`: the production method trained on a folder of logs, without DVC."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mfcp.commands.reading import add_option, read_params, settings_with
from mfcp.errors import in_shell


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "release",
        help="train what `mfcp match` and `mfcp serve` decide with, on a folder of logs",
        description="Trains the production method on all clusters of a log: logged seconds and counted failures, "
        "nothing else. `dvc repro release` does the same in the pipeline.",
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder in the log schema")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the release; one that is there goes")
    parser.add_argument("--method", metavar="LABEL", help="row of params.yaml's methods (default: its release.method)")
    parser.add_argument("--params", type=Path, metavar="FILE", help="all settings (default: params.yaml)")
    add_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Validate, train, write, and say what it is."""
    from mfcp.commands.reading import read_log
    from mfcp.files import folder_digest
    from mfcp.progress import progress
    from mfcp.release.fitting import fit_release, steps
    from mfcp.settings import Settings

    settings = settings_with(options, read_params(options.params))
    if options.method is not None:
        section = (settings.content.get("release") or {}) | {"method": options.method}
        settings = Settings(settings.content | {"release": section}, settings.where)
    for name in ("pool", "featurize", "matching", "pretrain", "finetune", "release"):
        settings.section(name)  # a wrong key is told before a log is read
    with read_log(options.data, max_bad_share=settings.section("validate").max_bad_share) as log:
        tables = log.tables
    data = {"name": str(options.data), "log": folder_digest(options.data)}
    with progress("release", steps(settings)) as advance:
        release = fit_release(tables, settings, options.out, data=data, advance=advance)
    for line in release.summary():
        print(line)
    print(f"{options.out}: next, `mfcp match --model {in_shell(options.out)} --tasks FILE`")
