"""Pages that ask nobody, with a first one that lists what was found."""

import re

import pytest

from mfcp.data.log.expectations import Expectations
from mfcp.data.log.validation import validate

pytestmark = pytest.mark.xdist_group("expectations")


def test_pages_load_nothing_from_elsewhere_and_the_first_lists_what_is_broken(small_log, tmp_path):
    tables = small_log()
    tables["runs"]["duration_s"] = [-1.0, *[1.0] * 7]
    context = Expectations(tmp_path / "gx")
    validate(tables, max_bad_share=1.0, expectations=context)
    page = context.publish()
    pages = list(page.parent.rglob("*.html"))
    assert len(pages) > 8
    for own in pages:
        text = own.read_text(encoding="utf-8")
        assert not re.search(r"<(script|img|iframe)\b|<link[^>]+https?:", text), own
        (style,) = set(re.findall(r'href="([^"]*mfcp.css)"', text))
        assert (own.parent / style).is_file()
    first = page.read_text(encoding="utf-8")
    assert '<td class="broken">1</td><td>range(duration_s)</td>' in first
    linked = re.findall(r'<a href="(validations/[^"]+)">', first)
    assert len(linked) == 3
    assert all((page.parent / name).is_file() for name in linked)
