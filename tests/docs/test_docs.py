"""The documentation tells the truth: links lead somewhere, and what it shows as a command works and prints that."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from importlib.util import find_spec
from pathlib import Path

import pytest
from doc_pages import DOCS, PAGES, ROOT, Block, anchors, blocks, links, page_name

COMMAND_SECONDS_MAX = 120
NOT_RUN = "not run: "
OUTPUT, RUN = "output", "run"
_EXIT = re.compile(r"\s#.*?\bexit (\d+)\s*$")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = [link for link in links(page) if "://" not in link and not _leads_somewhere(page, link)]
    assert broken == []


def _leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_the_index_lists_every_page() -> None:
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "index.md")}
    missing = [page_name(page) for page in DOCS.rglob("*.md") if page.name != "index.md" and page not in listed]
    assert missing == []


class Session:
    """The commands of one page, run in order in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.printed: str | None = None
        self.path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        shutil.copytree(ROOT / "examples", directory / "examples")

    def show(self, block: Block) -> list[str]:
        """Do what the block says; returns what was not as documented."""
        if block.mark.startswith(NOT_RUN):
            assert block.mark.removeprefix(NOT_RUN).strip(), "a block that is not run needs a reason"
            return []
        if block.language == "sh":
            lines = block.text.replace("\\\n", " ").splitlines()
            return [problem for line in lines if _is_ours(line) for problem in self.command(line)]
        if block.mark == RUN and block.language == "python":
            return self.python(block.text)
        return self.compare(block.text) if block.mark == OUTPUT else []

    def command(self, line: str) -> list[str]:
        if line.startswith("tshark") and shutil.which("tshark") is None:
            self.printed = None
            return []
        stated = _EXIT.search(line)
        return self._ran(["sh", "-c", line], int(stated[1]) if stated else 0, line)

    def python(self, source: str) -> list[str]:
        if "scapy" in source and find_spec("scapy") is None:
            self.printed = None
            return []
        return self._ran([sys.executable, "-c", source], 0, source)

    def _ran(self, argv: list[str], expected: int, what: str) -> list[str]:
        done = subprocess.run(
            argv, cwd=self.directory, env={**os.environ, "PATH": self.path, "NO_COLOR": "1"}, capture_output=True,
            text=True, timeout=COMMAND_SECONDS_MAX, check=False,
        )  # fmt: skip
        self.printed = done.stdout
        if done.returncode == expected:
            return []
        return [f"{what}\nexit {done.returncode} instead of {expected}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"]

    def compare(self, documented: str) -> list[str]:
        if self.printed is None:
            return []
        alike = OutputChecker().check_output(documented, self.printed, ELLIPSIS | NORMALIZE_WHITESPACE)
        return [] if alike else [f"documented:\n{documented}\nprinted:\n{self.printed}"]


def _is_ours(line: str) -> bool:
    return line.startswith(("castbed ", "tshark "))


def _is_shown(block: Block) -> bool:
    return block.language == "sh" or block.mark in (OUTPUT, RUN)


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(_is_shown, blocks(page)))], ids=page_name)
def test_every_command_of_a_page_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    session = Session(tmp_path)
    problems = [problem for block in blocks(page) for problem in session.show(block)]
    assert problems == [], "\n\n".join(problems)


def test_a_wrong_exit_code_or_output_is_noticed(tmp_path: Path) -> None:
    session = Session(tmp_path)
    assert session.show(Block("", "sh", "castbed run examples/two-questions.toml  # exit 1\n"))
    assert session.show(Block("", "sh", "castbed --version\n")) == []
    assert session.show(Block(OUTPUT, "text", "castbed ...\n")) == []
    assert session.show(Block(OUTPUT, "text", "something else ...\n"))
