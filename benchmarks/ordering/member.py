"""A member of a peer: a program that is told on its standard input what to do and answers line by line.

    run SENDERS SIZE SECONDS RATE   get ready for a case; answered by `> ready`
    go                              senders send, everybody delivers; answered by `> ` and a `Seen` as JSON

It says `> joined` when it is in the group, then `> up` when all are. Lines without the mark are the peer's own.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ordering.cases import BrokenRunError, Case, Seen
from ordering.lan import Lan

MARK = b"> "
START_S_MAX = 60.0
LATE_S_MAX = 30.0  # beyond what a case takes by itself
WORDS_MAX = 1000  # of what a program that failed has to say


class Member:
    """One such program; what it complains about goes to a file."""

    def __init__(self, lan: Lan, number: int, command: Sequence[str], complaints: Path) -> None:
        self.complaints = complaints
        pipe = subprocess.PIPE
        with complaints.open("wb") as errors:
            self.process = lan.start(number, command, stdin=pipe, stdout=pipe, stderr=errors)
        self._heard = b""

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
        except BrokenPipeError:
            raise self._broken("is gone") from None

    def hear(self, seconds: float) -> bytes:
        """The next answer, without its mark."""
        until = time.monotonic() + seconds
        while True:
            line, newline, rest = self._heard.partition(b"\n")
            if not newline:
                self._read(until)
                continue
            self._heard = rest
            if line.startswith(MARK):
                return line.removeprefix(MARK)

    def _read(self, until: float) -> None:
        assert self.process.stdout is not None
        left = until - time.monotonic()
        if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
            raise self._broken("says nothing")
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise self._broken("has ended")
        self._heard += data

    def _broken(self, what: str) -> BrokenRunError:
        words = self.complaints.read_text(encoding="utf-8", errors="replace").strip()[-WORDS_MAX:]
        return BrokenRunError(f"process {self.process.pid} {what}: {' '.join(self.process.args)} {words}")  # type: ignore[arg-type]


def carry_out(members: Sequence[Member], case: Case) -> list[Seen]:
    """Have all members ready, then let the senders begin; returns what each saw."""
    for member in members:
        member.say(f"run {case.senders} {case.size} {case.seconds:g} {case.rate}")
    for member in members:
        member.hear(LATE_S_MAX)
    for member in members:
        member.say("go")
    return [msgspec.json.decode(member.hear(case.seconds + LATE_S_MAX), type=Seen) for member in members]
