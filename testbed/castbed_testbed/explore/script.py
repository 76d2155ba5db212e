"""A script: a setup, steps in words, and what comes of them; a text file that people read and edit.

    protocol = { name = "eomp", variant = "published" }
    topology = { kind = "three_tier", ... }
    expects = ["no_duplication/repeated"]
    steps:
    h1 submits a to 1
    everything arrives but from C1 to C2
    h1 moves to S3
    then everything settles

Above `steps:` it is TOML with the keys of an experiment; a table `[finding]` tells people what the script is about. `#`
at the beginning of a line or after a space begins a comment. `parse(write(script)) == script`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from castbed.errors import ConfigurationError
from castbed.units import convert
from castbed_testbed.experiment import Named, ProtocolChoice
from castbed_testbed.explore.arena import Setup
from castbed_testbed.explore.freedoms import check_freedom
from castbed_testbed.explore.steps import SETTLED, Step, parse_step, words

SUFFIX = ".steps"
STEPS = "steps:"
_COMMENT = re.compile(r"(?:^|\s)#.*")
BYTES_MAX = 1 << 20  # a script is read by people


class Account(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What people want to know about a flaw.

    `found_by` is the command that reports it, if the search does; `beyond` names the assumption of the paper that the
    script leaves.
    """

    title: str
    claims: tuple[str, ...]
    story: str
    cause: str
    responsible: str
    repair: str
    cost: str
    found_by: str = ""
    beyond: str = ""


class Script(msgspec.Struct, frozen=True):
    """A schedule of steps; `expects` lists what it violates (`property/kind`, nothing: all holds)."""

    setup: Setup
    steps: tuple[Step, ...]
    settles: bool = True
    expects: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    finding: Account | None = None


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    protocol: ProtocolChoice
    topology: dict[str, Any]
    membership: Named = Named("static")
    seed: int = 1
    allows: tuple[str, ...] = ()
    expects: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    finding: Account | None = None


def write(script: Script) -> str:
    """The script as a file."""
    header = script.setup.data()
    if script.setup.allows:
        header["allows"] = list(script.setup.allows)
    if script.expects:
        header["expects"] = list(script.expects)
    if script.needs:
        header["needs"] = list(script.needs)
    lines = _lines(header)
    if script.finding is not None:
        lines += ["", "[finding]", *_lines(msgspec.to_builtins(script.finding))]
    lines += ["", STEPS, *(words(step) for step in script.steps), *([SETTLED] if script.settles else [])]
    return "\n".join(lines) + "\n"


def parse(text: str, source: str = "script") -> Script:
    """The script that a file holds; every mistake is a ConfigurationError that names the line or the key."""
    lines = text.splitlines()
    if STEPS not in lines:
        raise ConfigurationError(source, f"has no line {STEPS!r} before its steps")
    at = lines.index(STEPS)
    header = _header("\n".join(lines[:at]), source)
    steps, settles = _steps(lines[at + 1 :], at + 2, source)
    if header.protocol.variant is None:
        raise ConfigurationError("protocol.variant", "a script says which")
    setup = Setup(
        header.protocol.name,
        header.protocol.variant,
        header.topology,
        header.protocol.options,
        header.membership,
        header.seed,
        tuple(check_freedom(freedom, "allows") for freedom in header.allows),
    )
    return Script(setup, tuple(steps), settles, header.expects, header.needs, header.finding)


def read(path: Path) -> Script:
    """The script in a file."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise ConfigurationError(str(path), f"has more than {BYTES_MAX} bytes, which is no script")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), f"is no text: {error}") from None
    return parse(text, str(path))


def _header(text: str, source: str) -> _Header:
    try:
        return convert(tomllib.loads(text), _Header)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(source, f"is not TOML above its steps: {error}") from None


def _steps(lines: list[str], first: int, source: str) -> tuple[list[Step], bool]:
    steps: list[Step] = []
    settles = False
    for number, line in enumerate(lines, start=first):
        said = _COMMENT.sub("", line).strip()
        if not said:
            continue
        if settles:
            raise ConfigurationError(source, f"line {number}: nothing comes after {SETTLED!r}")
        if said == SETTLED:
            settles = True
            continue
        try:
            steps.append(parse_step(said))
        except ValueError as error:
            raise ConfigurationError(source, f"line {number}: {error}") from None
    return steps, settles


def _lines(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {_inline(value)}" for key, value in table.items() if value != ""]


def _inline(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(key)} = {_inline(inner)}" for key, inner in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_inline(inner) for inner in value)}]"
    return msgspec.json.encode(value).decode()


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else msgspec.json.encode(key).decode()
