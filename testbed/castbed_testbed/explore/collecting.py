"""What was found so far, kind by kind, and what of a new batch is worth shrinking.

Shrinking costs as much as hundreds of schedules: of what looks alike, more is shrunk only as more is explored.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from castbed_testbed.explore.engine import BatchResult, Finding, Found
from castbed_testbed.explore.script import STEPS, write

PER_SIGNATURE = 24  # schedules that break a property in one way are shrunk at first,
SCHEDULES_PER_SIGNATURE = 250  # and one more for so many that were explored
PER_FREEDOMS = 2  # the same, of those that use the same freedoms
SCHEDULES_PER_FREEDOMS = 2_500


class Collected:
    """The findings so far: per kind the smallest. Says what is worth shrinking."""

    def __init__(self) -> None:
        self.schedules = 0
        self.networks = 0
        self.exhausted = 0
        self.findings: dict[tuple[str, str], Finding] = {}
        self._shrunk: Counter[str] = Counter()

    def take(self, result: BatchResult) -> list[Found]:
        """Count a batch; returns what has to be shrunk.

        What breaks several properties is shrunk for one of them, the one that was shrunk least often.
        """
        before = self.schedules
        self.schedules += result.schedules
        self.networks += 1
        self.exhausted += result.exhausted
        schedules: dict[str, list[Found]] = {}
        for found in (msgspec.structs.replace(one, after=before + one.after) for one in result.found):
            schedules.setdefault(found.script.partition(STEPS)[2], []).append(found)
        rarest = (min(same, key=lambda found: self._shrunk[found.signature]) for same in schedules.values())
        return [found for found in rarest if self._is_worth(found)]

    def _is_worth(self, found: Found) -> bool:
        freely = f"{found.signature} {found.used}"
        enough = self._shrunk[freely] >= PER_FREEDOMS + self.schedules // SCHEDULES_PER_FREEDOMS
        if enough or self._shrunk[found.signature] >= PER_SIGNATURE + self.schedules // SCHEDULES_PER_SIGNATURE:
            return False
        self._shrunk[found.signature] += 1
        self._shrunk[freely] += 1
        return True

    def add(self, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            known = self.findings.get((finding.property, finding.kind), finding)
            smaller = finding if _size(finding) < _size(known) else known
            first = min(finding.after, known.after)
            self.findings[finding.property, finding.kind] = msgspec.structs.replace(smaller, after=first)

    def sorted(self) -> list[Finding]:
        """One finding per kind.

        One that needs more than another of its core, but no other packets, commands and freedoms, is no kind of its
        own, nor is one that was not shrunk to the end where its property has one that was.
        """
        found = [self.findings[key] for key in sorted(self.findings)]
        return [one for one in found if not any(_covers(other, one) for other in found)]


def _covers(one: Finding, other: Finding) -> bool:
    if one.finished and not other.finished:
        return one.property == other.property
    alike = (one.property, one.core, one.about) == (other.property, other.core, other.about)
    return alike and one.consists < other.consists


def _size(finding: Finding) -> tuple[int, int, str]:
    text = write(finding.script)
    return len(finding.script.steps), len(text), text
