"""The record of what was explored: one entry per protocol, variant, strategy and seed, in a file that is committed.

An entry counts schedules without a gap from the first batch on, so that an exploration can be taken up where it ended.
It names the code of the plugin that was explored: other code begins anew.
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import msgspec

from castbed.errors import ConfigurationError
from castbed.registry import Registry
from castbed_testbed.explore.campaign import Report
from castbed_testbed.explore.engine import Request

DIGITS = 12  # of the hash of the code: enough to tell two versions apart


class Explored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many schedules were explored and showed so many kinds of violation, of the properties that are `broken`."""

    protocol: str
    variant: str
    strategy: str
    seed: int
    without: tuple[str, ...]
    schedules: int
    kinds: int
    broken: tuple[str, ...]
    code: str

    def is_about(self, request: Request, code: str) -> bool:
        ours = (self.protocol, self.variant, self.strategy, self.seed, self.without, self.code)
        return ours == (request.protocol, request.variant, request.strategy, request.seed, request.without, code)

    def replaces(self, other: Explored) -> bool:
        """Whether the other one is the same exploration, of this code or of older code."""
        return _place(self) == _place(other)


def _place(entry: Explored) -> tuple[str, str, str, int, tuple[str, ...]]:
    return entry.protocol, entry.variant, entry.strategy, entry.seed, entry.without


def nothing_yet(request: Request, code: str) -> Explored:
    """The entry of an exploration that begins."""
    return Explored(request.protocol, request.variant, request.strategy, request.seed, request.without, 0, 0, (), code)


def extended(entry: Explored, report: Report) -> Explored:
    """The entry with what a report adds, whose batches follow those of the entry."""
    broken = {*entry.broken, *(finding.property for finding in report.findings)}
    return msgspec.structs.replace(
        entry,
        schedules=entry.schedules + report.schedules,
        kinds=entry.kinds + len(report.findings),
        broken=tuple(sorted(broken)),
    )


def read_explored(path: Path) -> list[Explored]:
    """The entries of a file; none if it is not there."""
    if not path.exists():
        return []
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Explored])
    except (msgspec.DecodeError, OSError) as error:
        raise ConfigurationError(str(path), f"is no record of explorations ({error})") from None


def write_explored(path: Path, entries: list[Explored]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [msgspec.json.encode(entry).decode() for entry in sorted(entries, key=_place)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def record(path: Path, entry: Explored) -> None:
    """Put the entry into the file, in the place of an older one of the same exploration."""
    others = [other for other in read_explored(path) if not entry.replaces(other)]
    write_explored(path, [*others, entry])


def code_of(registry: Registry, protocol: str, variant: str) -> str:
    """A fingerprint of the package, or the module, that the machines of the variant come from."""
    makes = registry.protocols.get(protocol, "PROTOCOL").variants[variant].roles.values()
    files = {file for make in makes for file in _files(make.__module__)}
    code = sha256()
    for file in sorted(files):
        code.update(file.read_bytes())
    return code.hexdigest()[:DIGITS]


def _files(module: str) -> list[Path]:
    """The files of the package that a module is in; of a module in no package, its own."""
    package = module.rpartition(".")[0]
    file = sys.modules[package or module].__file__
    assert file is not None
    return sorted(Path(file).parent.rglob("*.py")) if package else [Path(file)]
