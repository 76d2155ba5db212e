"""Option tables on pages of their own list every key with its default, as the reference of experiments does."""

from __future__ import annotations

import msgspec
import pytest
from doc_pages import DOCS, tables
from test_reference import default_text, found

PAGES = ("repair-layer.md", "wifi.md")
LISTED = [(page, reference) for page in PAGES for reference in tables(DOCS / page, "keys")]


@pytest.mark.parametrize(("page", "reference"), LISTED)
def test_every_key_of_a_page_is_listed_with_its_default(page: str, reference: str) -> None:
    rows = tables(DOCS / page, "keys")[reference]
    documented = {row[0].strip("`"): row[2].strip("`").strip('"') for row in rows}
    assert documented == {field.encode_name: default_text(field) for field in msgspec.structs.fields(found(reference))}


def test_each_of_these_pages_has_such_a_table() -> None:
    assert {page for page, _ in LISTED} == set(PAGES)
