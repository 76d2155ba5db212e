"""Explores what has flaws, and looks whether the search finds those that the corpus says it found, and after how long.

    python benchmarks/explore_published.py [NAME ...] [--jobs N] [--record FILE] [--resume]

Carries out every command that a finding of the corpus names, for these protocols or for all, and records after how many
schedules the kinds of each script were reported, command by command: `--resume` leaves out what the record has of the
present code. What is no longer found is told, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from castbed import load_registry
from castbed_testbed.explore.campaign import explore
from castbed_testbed.explore.hunting import hunts_in, not_reported, parse_command
from castbed_testbed.explore.reported import FILE, is_recorded, read_reported, record_reported, reported

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus"
RECORD = ROOT / "docs" / "findings" / FILE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    registry = load_registry()
    missed: list[str] = []
    for hunt in hunts_in(CORPUS, arguments.names):
        if arguments.resume and is_recorded(hunt, read_reported(arguments.record), registry):
            continue
        report = explore(*parse_command(hunt.command), jobs=arguments.jobs)
        gone = not_reported(hunt, report, registry)
        entries = reported(hunt, report, registry)
        record_reported(arguments.record, hunt, entries)
        told = f"{len(report.findings)} kinds, {len(hunt.scripts) - len(gone)} scripts of the corpus"
        print(f"{hunt.command}\n  {report.wall_s:.0f} s: {told}", flush=True)
        for entry in entries:
            print(f"  after {entry.after:6}: {entry.script}", flush=True)
        missed += gone
    for name in missed:
        print(f"not found: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
