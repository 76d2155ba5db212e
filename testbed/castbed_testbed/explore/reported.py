"""The record of what the search found after how many schedules: one entry per script that a command reports.

A flaw is found when the first script of its cause is. The repair is explored ten times as long as the last of the flaws
took, with each strategy that found one first.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from castbed.errors import ConfigurationError
from castbed.registry import Registry
from castbed_testbed.explore.campaign import Report
from castbed_testbed.explore.explored import Explored, code_of
from castbed_testbed.explore.hunting import Hunt, kinds_of, parse_command
from castbed_testbed.explore.menu import MIX

FILE = "found.json"
TIMES = 10  # as many schedules for a repair as it took to find the flaw
AT_LEAST = 200_000  # of the mix, for each variant that should have no flaw
REPAIRED = "repaired"


class Reported(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With the command, the kinds of violation that the script shows are all reported `after` so many schedules."""

    script: str
    protocol: str
    strategy: str
    command: str
    after: int
    code: str
    cause: str


def reported(hunt: Hunt, report: Report, registry: Registry) -> list[Reported]:
    """The entries of those scripts all of whose kinds are in the report."""
    request, _ = parse_command(hunt.command)
    code = code_of(registry, request.protocol, request.variant)
    after = {(finding.property, finding.kind): finding.after for finding in report.findings}
    entries: list[Reported] = []
    for name, script in hunt.scripts:
        shown = kinds_of(script, registry)
        if shown <= after.keys() and script.finding is not None:
            last = max(map(after.__getitem__, shown))
            where = request.protocol, request.strategy, hunt.command
            entries.append(Reported(name, *where, last, code, script.finding.cause))
    return entries


def read_reported(path: Path) -> list[Reported]:
    """The entries of a file; none if it is not there."""
    if not path.exists():
        return []
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Reported])
    except (msgspec.DecodeError, OSError) as error:
        raise ConfigurationError(str(path), f"is no record of what was found ({error})") from None


def record_reported(path: Path, hunt: Hunt, entries: Iterable[Reported]) -> None:
    """Put the entries into the file, in the place of all that it says of the command or of its scripts."""
    names = {name for name, _ in hunt.scripts}
    others = [one for one in read_reported(path) if one.command != hunt.command and one.script not in names]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [msgspec.json.encode(one).decode() for one in sorted([*others, *entries], key=lambda one: one.script)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def is_recorded(hunt: Hunt, entries: Iterable[Reported], registry: Registry) -> bool:
    """Whether every script of the command has an entry of the present code of its plugin."""
    request, _ = parse_command(hunt.command)
    code = code_of(registry, request.protocol, request.variant)
    known = {one.script for one in entries if (one.command, one.code) == (hunt.command, code)}
    return known >= {name for name, _ in hunt.scripts}


def found_after(entries: Iterable[Reported], protocol: str) -> dict[str, int]:
    """By strategy, after how many schedules the last of the flaws of the protocol was found that it found."""
    first: dict[str, Reported] = {}
    for one in sorted((one for one in entries if one.protocol == protocol), key=lambda one: one.after):
        first.setdefault(one.cause, one)
    return {one.strategy: one.after for one in first.values()}  # in the order in which they were found


def owed(entries: Iterable[Reported], protocol: str) -> dict[str, int]:
    """By strategy, how many schedules the repair is to be explored."""
    times = {strategy: TIMES * after for strategy, after in found_after(entries, protocol).items()}
    return {**times, MIX: max(AT_LEAST, times.get(MIX, 0))}


def explored_with(explored: Iterable[Explored], protocol: str, variant: str) -> dict[str, int]:
    """By strategy, how many schedules were explored with all freedoms and the first seed, without a violation."""
    return {
        one.strategy: one.schedules
        for one in explored
        if (one.protocol, one.variant, one.seed, one.without, one.kinds) == (protocol, variant, 1, (), 0)
    }
