"""Data Docs that ask nobody: the pages of Great Expectations without scripts, styles and pictures from elsewhere.

As they are built, every page loads a dozen files from five hosts, one of them a picture with the time in its address,
and shows an empty index where these are out of reach.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from mfcp.border.json_text import read_json
from mfcp.files import replacing

STYLE = "mfcp.css"
_ELSEWHERE = re.compile(
    r"<script\b[^>]*>.*?</script>|<link\b[^>]*href=\"https?:[^>]*>|<img\b[^>]*src=\"https?:[^>]*>"
    r"|<iframe\b.*?</iframe>|<footer\b.*?</footer>",
    re.DOTALL,
)
_CSS = """\
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2430; max-width: 75rem; margin: 2rem auto; padding: 0 1.5rem; }
h1, h2, h3, h4, h5, h6 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
a { color: #1a5fb4; }
table { border-collapse: collapse; margin: .3rem 0 1rem; }
th, td { border-bottom: 1px solid #d8dce3; padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; }
.broken { color: #b3261e; font-weight: 600; }
.badge, code { background: #eef0f4; border-radius: 3px; padding: .05rem .35rem; }
ol, ul { padding-left: 1.2rem; }
.sticky > .card:first-child, .modal, .cooltip, .fixed-table-toolbar, button { display: none; }
.fa-check-circle::before { content: "held"; color: #2e7d32; }
.fa-times::before, .fa-exclamation-triangle::before { content: "broken"; color: #b3261e; font-weight: 600; }
.col-lg-2 ul { columns: 3; font-size: .9rem; }
nav ol { list-style: none; display: flex; gap: .6rem; padding: 0; }
"""


def make_self_contained(site: Path, results: Path) -> None:
    """Take what comes from elsewhere out of every page, and list the results on the first one.

    Args:
        site: folder of the built pages.
        results: folder of the results in JSON that they are of.
    """
    with replacing(site / STYLE) as path:
        path.write_text(_CSS, encoding="utf-8")
    for page in sorted(site.rglob("*.html")):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        text = _ELSEWHERE.sub("", page.read_text(encoding="utf-8"))
        text = text.replace("</head>", f'<link rel="stylesheet" href="{up}{STYLE}"></head>', 1)
        with replacing(page) as path:
            path.write_text(text, encoding="utf-8")
    with replacing(site / "index.html") as path:
        path.write_text(_index(site, results), encoding="utf-8")


def _index(site: Path, results: Path) -> str:
    rows = []
    for file in sorted(results.rglob("*.json"), key=lambda path: path.parent.name, reverse=True):
        page = site / "validations" / file.relative_to(results).with_suffix(".html")
        if page.is_file():
            rows.append(_row(read_json(file), page.relative_to(site).as_posix(), file.parent.name))
    suites = [
        f'<li><a href="expectations/{path.name}">{html.escape(path.stem)}</a></li>'
        for path in sorted((site / "expectations").glob("*.html"))
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Data Docs of the log</title>'
        f'<link rel="stylesheet" href="{STYLE}"></head><body><h1>What the log was expected to be, and was</h1>'
        "<table><thead><tr><th>table</th><th>checked (UTC)</th><th>expectations</th><th>broken</th>"
        f"<th>which</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f"<h2>Suites</h2><ul>{''.join(suites)}</ul></body></html>\n"
    )


def _row(result: dict[str, Any], page: str, at: str) -> str:
    broken = [one["expectation_config"] for one in result["results"] if not one["success"]]
    named = ", ".join((one.get("meta") or {}).get("constraint") or one["type"] for one in broken)
    when = re.sub(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d).*", r"\1-\2-\3 \4:\5", at)
    count = f'<td class="broken">{len(broken)}</td>' if broken else "<td>0</td>"
    name = html.escape(str(result["suite_name"]))
    return (
        f'<tr><td><a href="{page}">{name}</a></td><td>{when}</td><td>{len(result["results"])}</td>{count}'
        f"<td>{html.escape(named)}</td></tr>"
    )
