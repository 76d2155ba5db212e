"""Puts a document into one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

from html import escape
from importlib.resources import files

import msgspec

from castbed_spark.report.document import Document

SCRIPTS = ("draw.js", "diagram.js", "page.js")


def page(document: Document) -> str:
    """The report as HTML."""
    parts = {
        "title": escape(document.title),
        "style": _text("page.css"),
        "script": "\n".join(_text(name) for name in SCRIPTS),
        "document": _embeddable(document),
    }
    html = _text("page.html")
    for name, text in parts.items():
        before, _, after = html.partition("{{" + name + "}}")
        html = before + text + after
    return html


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _embeddable(document: Document) -> str:
    """JSON that cannot end the script element it is in."""
    return msgspec.json.encode(document).decode().replace("<", "\\u003c")
