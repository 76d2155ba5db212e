"""Whether the search still finds what a corpus says it found.

A finding may name the command that reports it. The command is carried out again, and every kind of violation that the
script shows has to be reported.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import msgspec

from castbed.errors import ConfigurationError
from castbed.registry import Registry
from castbed_testbed.explore.campaign import Budget, Report, parse_budget
from castbed_testbed.explore.corpus import scripts_in
from castbed_testbed.explore.engine import Request, findings_of
from castbed_testbed.explore.judging import arena_of
from castbed_testbed.explore.script import Script, read
from castbed_testbed.explore.shrinking import Counterexample

Kind = tuple[str, str]
"""A property, and the way in which it is broken."""


class Hunt(msgspec.Struct, frozen=True):
    """A command that explores, and the scripts that it is said to have found, by name."""

    command: str
    scripts: tuple[tuple[str, Script], ...]


def hunts_in(corpus: Path, protocols: Iterable[str] = ()) -> list[Hunt]:
    """The commands that the findings of a corpus name, of these protocols or of all."""
    found: dict[str, list[tuple[str, Script]]] = {}
    for path in scripts_in(corpus):
        script = read(path)
        wanted = not protocols or script.setup.protocol in protocols
        if wanted and script.finding is not None and script.finding.found_by:
            found.setdefault(script.finding.found_by, []).append((path.stem, script))
    return [Hunt(command, tuple(scripts)) for command, scripts in sorted(found.items())]


class _Options(argparse.ArgumentParser):
    """Those options of `castbed explore` on which the report depends."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.add_argument("protocol")
        self.add_argument("--variant", required=True)
        self.add_argument("--budget", required=True)
        self.add_argument("--seed", type=int, default=1)
        self.add_argument("--strategy", default="mix")
        self.add_argument("--property", dest="properties", action="append", default=[])
        self.add_argument("--without", action="append", default=[])
        self.add_argument("--allow", action="append", default=[])

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError("finding.found_by", message)


def parse_command(text: str) -> tuple[Request, Budget]:
    """What `castbed explore PROTOCOL --variant V --budget N` and its options ask for."""
    words = shlex.split(text)
    if words[:2] != ["castbed", "explore"]:
        raise ConfigurationError("finding.found_by", f"{text!r} is no command that explores")
    given = _Options().parse_args(words[2:])
    request = Request(
        given.protocol,
        given.variant,
        tuple(given.properties),
        strategy=given.strategy,
        seed=given.seed,
        without=tuple(given.without),
        allows=tuple(given.allow),
    )
    return request, parse_budget(given.budget)


def kinds_of(script: Script, registry: Registry) -> set[Kind]:
    """The kinds of violation that a script shows."""
    shown = Counterexample(arena_of(script, registry), script.steps, script.settles, "")
    return {(finding.property, finding.kind) for finding in findings_of(shown)}


def not_reported(hunt: Hunt, report: Report, registry: Registry) -> list[str]:
    """The scripts that show a kind of violation that the report lacks."""
    reported = {(finding.property, finding.kind) for finding in report.findings}
    return [name for name, script in hunt.scripts if not kinds_of(script, registry) <= reported]
