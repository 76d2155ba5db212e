"""Reads the documentation as far as its tests need it: blocks with the comment before them, tables, links, headings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

_BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*?) -->\n+)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.M)


class Block(NamedTuple):
    """A fenced block; `mark` is the HTML comment directly before it."""

    mark: str
    language: str
    text: str


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(at["mark"] or "", at["language"], at["text"]) for at in found]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """What links may name after `#`, made from headings as GitHub does."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {heading.replace(" ", "-") for heading in plain}


def tables(page: Path, mark: str) -> dict[str, list[list[str]]]:
    """The tables after a comment that begins with `mark`: what follows the mark, and the cells of each row."""
    pattern = re.compile(rf"^<!-- {mark}:? ?(.*?) ?-->\n\|.*\n\|[-|]+\n((?:\|.*\n)+)", re.M)
    return {at[1]: [_cells(row) for row in at[2].splitlines()] for at in pattern.finditer(prose(page))}


def table(page: Path, mark: str) -> list[list[str]]:
    """The one table after the comment `mark`."""
    (rows,) = tables(page, mark).values()
    return rows


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def sections(page: Path, level: int) -> dict[str, str]:
    """The text under each heading of this level, up to the next one that is not below it."""
    pattern = re.compile(rf"^#{{{level}}} (.+?)\n(.*?)(?=^#{{1,{level}}} |\Z)", re.M | re.S)
    return {at[1]: at[2] for at in pattern.finditer(prose(page))}
