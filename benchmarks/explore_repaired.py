"""Explores what should have no flaw: 200 000 schedules of each variant, without a violation.

    python benchmarks/explore_repaired.py [NAME/VARIANT ...] [--schedules N] [--jobs N] [--record FILE]

Takes up where the record ends, so that it may be interrupted; other code of a plugin begins anew. What is found is left
as scripts in castbed-runs/explore-NAME-VARIANT, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from castbed import Registry, load_registry
from castbed_testbed.explore.campaign import Budget, Report, explore
from castbed_testbed.explore.engine import BATCH, Request
from castbed_testbed.explore.explored import Explored, code_of, extended, nothing_yet, read_explored, record
from castbed_testbed.explore.script import SUFFIX, write

RECORD = Path(__file__).parents[1] / "docs" / "findings" / "explored.json"
SURVIVORS = ("sb/published", "sb/repaired", "m2mc/repaired", "eomp/repaired")
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


def survive(registry: Registry, name: str, arguments: argparse.Namespace) -> bool:
    """Explore until the record has the wanted number of schedules; false at the first violation."""
    protocol, _, variant = name.partition("/")
    request = Request(protocol, variant)
    entry = explored_so_far(arguments.record, request, code_of(registry, protocol, variant))
    while entry.schedules < arguments.schedules and not entry.kinds:
        budget = Budget(min(AT_ONCE, arguments.schedules - entry.schedules), first=entry.schedules // BATCH)
        report = explore(request, budget, jobs=arguments.jobs)
        if report.findings:
            keep_scripts(report)
        entry = extended(entry, report)
        record(arguments.record, entry)
        print(f"{name}: {entry.schedules} schedules, {entry.kinds} kinds of violation", flush=True)
    return not entry.kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME/VARIANT", default=SURVIVORS)
    parser.add_argument("--schedules", type=int, default=200_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", type=Path, default=RECORD)
    arguments = parser.parse_args()
    registry = load_registry()
    survived = [survive(registry, name, arguments) for name in arguments.names]
    return 0 if all(survived) else 1


if __name__ == "__main__":
    sys.exit(main())
