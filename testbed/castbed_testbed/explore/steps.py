"""The steps of a schedule as values, and as the words in which a script writes them.

A step names nodes, messages and packets as people do, so that it means the same after other steps were taken away: a
copy is named by its ends, its packet type and its message, and where several copies on their way match, the one that
was sent first is meant unless the step says which (`2nd`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

EVERYTHING = "everything arrives"
PASSING = "time passes"
SETTLED = "then everything settles"


class Step(msgspec.Struct, frozen=True):
    """Base of all steps."""


class Submits(Step, frozen=True):
    """The application of `node` submits a message of this name; `parent` names the message that it answers."""

    node: str
    message: str
    group: str
    parent: str = ""


class Asks(Step, frozen=True):
    """The application of `node` gives a command, by its name in scripts, with its fields."""

    node: str
    command: str
    fields: tuple[tuple[str, str], ...] = ()


class OnCopy(Step, frozen=True):
    """Base of what happens to a copy on its way: the `nth` that was sent of those that match."""

    to: str
    packet: str
    sender: str
    message: str = ""
    nth: int = 1


class Receives(OnCopy, frozen=True):
    """The copy arrives."""


class Lost(OnCopy, frozen=True):
    """The copy never arrives."""


class Duplicated(OnCopy, frozen=True):
    """Another copy of the same is on its way, too."""


class Fires(Step, frozen=True):
    """A timer of the node runs out."""

    node: str
    timer: str


class Moves(Step, frozen=True):
    """A host goes into the cell of a station."""

    node: str
    station: str


class GoesAway(Step, frozen=True):
    """A node goes out of everybody's range."""

    node: str


class ComesBack(Step, frozen=True):
    """A node comes back to the shared air."""

    node: str


class Crashes(Step, frozen=True):
    """A node stops."""

    node: str


class Restarts(Step, frozen=True):
    """A node that crashed starts again."""

    node: str
    storage: bool = True


class Arrives(Step, frozen=True):
    """Everything arrives, and what that causes, except from the first to the second node of each pair."""

    but: tuple[tuple[str, str], ...] = ()


class TimePasses(Step, frozen=True):
    """Everything arrives, then every timer that runs now runs out once, with what that causes."""


# --- words -----------------------------------------------------------------------------------------------------------


def _copy_words(step: OnCopy) -> str:
    nth = f"{ordinal(step.nth)} " if step.nth > 1 else ""
    message = f" {step.message}" if step.message else ""
    return f"{nth}{step.packet}{message} from {step.sender}"


def ordinal(number: int) -> str:
    """`2nd`, `3rd`, `11th`."""
    tens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if tens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _asks_words(step: Asks) -> str:
    if step.command in ("join", "leave") and [key for key, _ in step.fields] == ["group"]:
        return f"{step.node} {step.command}s {step.fields[0][1]}"
    return " ".join([f"{step.node} asks {step.command}", *(f"{key}={value}" for key, value in step.fields)])


def _submits_words(step: Submits) -> str:
    answer = f" answering {step.parent}" if step.parent else ""
    return f"{step.node} submits {step.message} to {step.group}{answer}"


def _arrives_words(step: Arrives) -> str:
    but = ", ".join(f"from {sender} to {to}" for sender, to in step.but)
    return f"{EVERYTHING} but {but}" if but else EVERYTHING


_WORDS: Mapping[type[Step], Callable[[Any], str]] = {
    Submits: _submits_words,
    Asks: _asks_words,
    Receives: lambda step: f"{step.to} receives {_copy_words(step)}",
    Lost: lambda step: f"{_copy_words(step)} to {step.to} is lost",
    Duplicated: lambda step: f"{_copy_words(step)} to {step.to} is duplicated",
    Fires: lambda step: f"{step.node}'s {step.timer} fires",
    Moves: lambda step: f"{step.node} moves to {step.station}",
    GoesAway: lambda step: f"{step.node} goes out of range",
    ComesBack: lambda step: f"{step.node} comes back",
    Crashes: lambda step: f"{step.node} crashes",
    Restarts: lambda step: f"{step.node} restarts" + ("" if step.storage else " without its storage"),
    Arrives: _arrives_words,
    TimePasses: lambda step: PASSING,
}


def words(step: Step) -> str:
    """The step as a line of a script."""
    return _WORDS[type(step)](step)


# --- and back --------------------------------------------------------------------------------------------------------

_NAME = r"([A-Za-z0-9_.-]+)"
_COPY = rf"(?:(\d+)(?:st|nd|rd|th) )?(\w+)(?: (\S+))? from {_NAME}"
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[..., Step]], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (
            rf"{_NAME} submits (\S+) to (\S+)(?: answering (\S+))?",
            lambda node, message, group, parent: Submits(node, message, group, parent or ""),
        ),
        (rf"{_NAME} (join|leave)s (\S+)", lambda node, command, group: Asks(node, command, (("group", group),))),
        (rf"{_NAME} asks (\S+)((?: \w+=\S*)*)", lambda node, command, rest: Asks(node, command, _fields(rest))),
        (
            rf"{_NAME} receives {_COPY}",
            lambda to, nth, packet, message, sender: Receives(to, packet, sender, message or "", int(nth or 1)),
        ),
        (
            rf"{_COPY} to {_NAME} is lost",
            lambda nth, packet, message, sender, to: Lost(to, packet, sender, message or "", int(nth or 1)),
        ),
        (
            rf"{_COPY} to {_NAME} is duplicated",
            lambda nth, packet, message, sender, to: Duplicated(to, packet, sender, message or "", int(nth or 1)),
        ),
        (rf"{_NAME}'s (\S+) fires", Fires),
        (rf"{_NAME} moves to {_NAME}", Moves),
        (rf"{_NAME} goes out of range", GoesAway),
        (rf"{_NAME} comes back", ComesBack),
        (rf"{_NAME} crashes", Crashes),
        (rf"{_NAME} restarts", Restarts),
        (rf"{_NAME} restarts without its storage", lambda node: Restarts(node, False)),
        (PASSING, TimePasses),
        (EVERYTHING, Arrives),
        (
            rf"{EVERYTHING} but (from {_NAME} to {_NAME}(?:, from {_NAME} to {_NAME})*)",
            lambda pairs, *_: Arrives(tuple(re.findall(rf"from {_NAME} to {_NAME}", pairs))),
        ),
    )
)


def _fields(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, _, value in (part.partition("=") for part in text.split()))


def parse_step(line: str) -> Step:
    """The step that a line says; ValueError when it says none."""
    for pattern, make in _PATTERNS:
        found = pattern.fullmatch(line)
        if found is not None:
            return make(*found.groups())
    raise ValueError(f"{line!r} is no step")
