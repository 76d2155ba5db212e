"""Explores what should have no flaw: 200 000 schedules of each variant, and ten times what it took to find its flaws.

    python benchmarks/explore_repaired.py [NAME/VARIANT ...] [--schedules N] [--jobs N] [--record FILE] [--found FILE]

With each strategy that found flaws of the published variant, `repaired` is explored ten times as long as the last of
them took (docs/findings/found.json, which explore_published.py writes). Takes up where the record ends, so that it may
be interrupted; other code of a plugin begins anew. `--schedules` is for trying it out. What is found is left as scripts
in castbed-runs/explore-NAME-VARIANT, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from castbed import Registry, load_registry
from castbed_testbed.explore.campaign import Budget, Report, explore
from castbed_testbed.explore.engine import Request, batch_size
from castbed_testbed.explore.explored import Explored, code_of, extended, nothing_yet, read_explored, record
from castbed_testbed.explore.reported import FILE, REPAIRED, Reported, owed, read_reported
from castbed_testbed.explore.script import SUFFIX, write

PAGES = Path(__file__).parents[1] / "docs" / "findings"
RECORD, FOUND = PAGES / "explored.json", PAGES / FILE
SOUND = ("sb/published", "sb/repaired")
AT_ONCE = 5_000  # schedules between two entries of the record; whole batches


def explored_so_far(path: Path, request: Request, code: str) -> Explored:
    for entry in read_explored(path):
        if entry.is_about(request, code):
            return entry
    return nothing_yet(request, code)


def keep_scripts(report: Report) -> None:
    folder = Path("castbed-runs") / f"explore-{report.request.protocol}-{report.request.variant}"
    folder.mkdir(parents=True, exist_ok=True)
    for number, finding in enumerate(report.findings, start=1):
        path = folder / f"{number:02}-{finding.property}{SUFFIX}"
        path.write_text(f"# {finding.kind}\n# {finding.witness}\n{write(finding.script)}", encoding="utf-8")
        print(f"  {finding.property}: {finding.witness} castbed run {path}")


def survive(registry: Registry, name: str, strategy: str, schedules: int, arguments: argparse.Namespace) -> bool:
    """Explore until the record has so many schedules; false at the first violation."""
    protocol, _, variant = name.partition("/")
    request = Request(protocol, variant, strategy=strategy)
    entry = explored_so_far(arguments.record, request, code_of(registry, protocol, variant))
    size = batch_size(strategy)
    wanted = -(-schedules // size) * size  # whole batches, so that the next one may follow
    while entry.schedules < wanted and not entry.kinds:
        budget = Budget(min(AT_ONCE // size * size, wanted - entry.schedules), first=entry.schedules // size)
        report = explore(request, budget, jobs=arguments.jobs)
        if report.findings:
            keep_scripts(report)
        entry = extended(entry, report)
        record(arguments.record, entry)
        done = f"{entry.schedules} of {wanted} schedules, {entry.kinds} kinds of violation"
        print(f"{name} {strategy}: {done}", flush=True)
    return not entry.kinds


def survivors(registry: Registry, found: list[Reported]) -> list[str]:
    """What should have no flaw: `sb`, and the repair of each protocol that the search found flaws of."""
    flawed = sorted({one.protocol for one in found})
    return [*SOUND, *(f"{name}/{REPAIRED}" for name in flawed if REPAIRED in registry.protocols.get(name, "").variants)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME/VARIANT")
    parser.add_argument("--schedules", type=int, help="at most so many with each strategy")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--found", type=Path, default=FOUND)
    arguments = parser.parse_args()
    registry = load_registry()
    found = read_reported(arguments.found)
    survived = [
        survive(registry, name, strategy, min(schedules, arguments.schedules or schedules), arguments)
        for name in arguments.names or survivors(registry, found)
        for strategy, schedules in owed(found, name.partition("/")[0]).items()
    ]
    return 0 if all(survived) else 1


if __name__ == "__main__":
    sys.exit(main())
