"""What a run leaves for people: paper.json, tables as Markdown and in the terminal, figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mfcp.evaluation.compare import POOLED
from mfcp.evaluation.table import markdown, show
from mfcp.files import replacing, write_json
from mfcp.paper import figures


def write_report(results: dict[str, Any], out: Path) -> None:
    """Write everything from what was gathered, and print the pooled tables."""
    write_json(out / "paper.json", results)
    lines = ["# Tables", ""]
    for experiment in results["experiments"].values():
        for entry in experiment["entries"]:
            swept = f", {experiment['swept']} = {entry['value']:g}" if experiment["swept"] else ""
            title = f"{experiment['title']}, {entry['data']}{swept}"
            lines += [f"# {title}", "", markdown(entry["tables"])]
            print(title)
            show({POOLED: entry["tables"][POOLED]})
    with replacing(out / "tables.md") as path:
        path.write_text("\n".join(lines), encoding="utf-8")
    figures.draw(results, out)
