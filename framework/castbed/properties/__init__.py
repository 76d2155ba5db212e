"""Guarantees as code: each property is a function of a history that returns its violations."""

from __future__ import annotations

import msgspec

from castbed.declarations import Check
from castbed.history import LocalEvent


class Violation(msgspec.Struct, frozen=True):
    """One way in which a history breaks a property: the witness, in words and as the events that show it."""

    property: str
    words: str
    events: tuple[LocalEvent, ...]
    kind: str = ""


CHECKS: tuple[Check, ...] = ()
