"""`mfcp init`: a folder of tables to fill in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mfcp.errors import DataError, in_shell


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "init",
        help="a folder with three tables to fill in: tasks, clusters, runs",
        description="Writes tasks.csv, clusters.csv and runs.csv with their headings and an example row each, and a "
        "README that says what each column holds. Replace the examples by what you have measured.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="made if missing; must not hold these tables yet")
    parser.add_argument(
        "--source", metavar="SPEC",
        help="fill them from what a site has: '{kind: sacct, path: jobs.psv}'; also mlflow, kineto (docs/clusters.md)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the tables."""
    from mfcp.data.log.schema import EXAMPLE, SCHEMA, schema_markdown
    from mfcp.data.log.tables import find_table
    from mfcp.files import output_folder, replacing

    folder: Path = options.folder
    if options.source is not None:
        _from_source(folder, options.source)
        return
    texts = {}
    for name, row in EXAMPLE.items():
        columns = [column.name for column in SCHEMA[name].columns]
        lines = [",".join(columns), ",".join(row.get(column, "") for column in columns)]
        texts[name] = "\n".join(lines) + "\n"
    if folder.is_dir():
        found = {name: path for name in EXAMPLE if (path := find_table(folder, name)) is not None}
        # An untouched example is what `mfcp init` itself has left, maybe a killed one.
        there = [path.name for name, path in found.items() if not _holds(path, texts[name])]
        if there:
            raise DataError(f"{folder}: holds {', '.join(there)} already; choose a new folder, or fill in those")
    output_folder(folder)
    guide = _README.format(folder=in_shell(folder)) + schema_markdown(tuple(EXAMPLE)) + "\n"
    with replacing(folder / "README.md") as path:
        path.write_text(guide, encoding="utf-8")
    for name, text in texts.items():
        with replacing(folder / f"{name}.csv") as path:
            path.write_text(text, encoding="utf-8")
    print(
        f"{folder}: tasks.csv, clusters.csv, runs.csv and README.md. Replace the example rows by your own, then "
        f"`mfcp check {in_shell(folder)}`"
    )


def _from_source(folder: Path, text: str) -> None:
    """Tables of a source in a new folder."""
    from tempfile import TemporaryDirectory

    from mfcp.border.bounds import Limits
    from mfcp.border.yaml_text import parse_yaml
    from mfcp.data.sources import Source, kineto, mlflow_csv, sacct
    from mfcp.errors import SettingsError
    from mfcp.files import replacing_folder

    try:
        source = Source.parse(parse_yaml(text, "--source", Limits()))
        if not isinstance(source, kineto.Kineto | mlflow_csv.MlflowCsv | sacct.Sacct):
            raise SettingsError(f"kind '{source.name}': expected kineto, mlflow or sacct")
    except (DataError, SettingsError) as error:
        raise SettingsError(f"--source: {error}") from None
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: is there already; name a new folder")
    with TemporaryDirectory() as scratch, replacing_folder(folder) as made:
        rows = source.write(0, made, Path(scratch))
    told = ", ".join(f"{name}: {count} rows" for name, count in rows.items())
    print(f"{folder}: {told}. Next, `mfcp check {in_shell(folder)}`")


def _holds(path: Path, text: str) -> bool:
    return path.suffix == ".csv" and path.read_bytes() == text.encode("utf-8")


_README = """# A log for mfcp

Three tables: what ran (`tasks.csv`), where it can run (`clusters.csv`), and every run of the one on the other
(`runs.csv`). Replace the example row of each. Only names and the `status` of a run must be filled in; leave out any
other column that you do not have. Units are SI: seconds, bytes, FLOP/s. An empty cell means unknown.

- Of a run, give `duration_s`, the wall clock of the whole task. `samples_per_s` or `step_time_s` do instead where you
  have measured steps only.
- A run that did not succeed has any other status than `succeeded`: `failed`, `oom`, … Without failures in the log
  nothing is known of reliability. Runs that are `cancelled`, `running`, `pending` or `queued` count neither way.
- The more a task's row tells, the better new tasks are predicted: `model`, `batch_size`, `flops`, `param_count`.

```console
$ mfcp check {folder}
$ mfcp release --data {folder} --out my-release
$ mfcp match --model my-release --tasks new-tasks.csv --out plan.csv
```

`new-tasks.csv` is a table like `tasks.csv`, of the tasks that are to run; its `task_id` alone must be filled in. `mfcp
benchmark --data {folder} --out results` compares methods on the log.

"""
