#!/usr/bin/env python3
"""Totally ordered messages among four members: `eomp` on `udp` beside corosync's CPG and JGroups' SEQUENCER.

    python benchmarks/group.py [--rounds N] [--quick] [--only NAME ...] [--sizes BYTES ...] [--json]

Needs root, and a Debian with network for what is not installed yet: packages are installed without asking. All systems
run on this machine, each member in a network namespace on a bridge of its system; when the command ends, however it
ends, namespaces and processes are gone. In each round every case is measured on one system after the other, in an
order that is drawn.

Throughput: one or all members send as quickly as the system lets them; counted is what every member delivered, until
the slowest had. Latency: the last member, which does not order, sends 200 messages a second; from sending to
delivery, the median of the members. A run in which a member misses a message or sees another order ends all; a peer
that falls silent is started anew, once per run. Every step has a limit in time; a round of all takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

from ordering.cases import MEMBERS, RATE, SIZE_MIN, BrokenRunError, Case, Outcome, System
from ordering.corosync import Corosync, RealTimeCorosync
from ordering.install import install
from ordering.jgroups import JGroups, QuickJGroups
from ordering.lan import Lan
from ordering.ours import Castbed
from ordering.results import rows, table

from castbed.errors import CastbedError

Kind = type[Castbed] | type[Corosync] | type[JGroups]
KINDS: tuple[Kind, ...] = (Castbed, Corosync, JGroups, QuickJGroups)
ON_REQUEST: tuple[Kind, ...] = (RealTimeCorosync,)  # it takes the processors away from all others on the machine
SYSTEMS = {kind.name: kind for kind in (*KINDS, *ON_REQUEST)}
SIZES = (64, 256, 1024)
ROUNDS, SECONDS = 5, 2.0
QUICK_SIZES, QUICK_ROUNDS, QUICK_SECONDS = (64,), 1, 0.7
SIZE_MAX = 60_000  # what fits into a datagram
FAILED, UNAVAILABLE, INTERRUPTED, TERMINATED = 1, 3, 130, 143

Found = dict[Case, dict[str, list[Outcome]]]


def cases(sizes: Sequence[int], seconds: float) -> list[Case]:
    """Throughput from one and from all, and latency, for each size."""
    kinds = ((1, 0), (MEMBERS, 0), (1, RATE))
    return [Case(senders, size, seconds, rate) for size in sizes for senders, rate in kinds]


def measured(systems: Sequence[System], wanted: Sequence[Case], rounds: int) -> Found:
    """Every case on one system after the other, in an order that is drawn each time: none always comes behind another.

    What one leaves behind costs the next: after a virtual machine has run, fresh memory is slow to come by, say.
    """
    found: Found = {case: {system.name: [] for system in systems} for case in wanted}
    order = Random(0)
    for turn in range(rounds):
        for case in wanted:
            for system in order.sample(systems, len(systems)):
                signal.signal(signal.SIGTERM, _terminated)  # each of our runs takes it and gives it up again
                _say(f"round {turn + 1} of {rounds}: {case.name}, {system.name} ...")
                found[case][system.name].append(_outcome(system, case))
    return found


def _outcome(system: System, case: Case) -> Outcome:
    """A peer that falls silent, as JGroups does now and then, is started anew for a second try; ours is not."""
    try:
        return system.run(case)
    except BrokenRunError as error:
        if isinstance(system, Castbed):
            raise
        _say(f"{system.name} is started anew: {error}")
        system.__exit__()
        system.__enter__()
        return system.run(case)


def _terminated(_number: int, _frame: object) -> None:
    raise SystemExit(TERMINATED)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=_positive, help=f"how often everything is measured ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="one short round of the smallest size")
    parser.add_argument(
        "--only", nargs="+", choices=SYSTEMS, default=[kind.name for kind in KINDS], help="which systems"
    )
    parser.add_argument("--sizes", nargs="+", type=_size, help=f"of the payloads, in bytes ({SIZES})")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    quick = options.quick
    options.rounds = options.rounds or (QUICK_ROUNDS if quick else ROUNDS)
    options.sizes = options.sizes or (QUICK_SIZES if quick else SIZES)
    options.seconds = QUICK_SECONDS if quick else SECONDS
    return options


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return int(text)


def _size(text: str) -> int:
    if not SIZE_MIN <= int(text) <= SIZE_MAX:
        raise argparse.ArgumentTypeError(f"from {SIZE_MIN} to {SIZE_MAX}")
    return int(text)


def run(options: argparse.Namespace) -> None:
    """Install, start, measure, end, print."""
    kinds = [SYSTEMS[name] for name in dict.fromkeys(options.only)]
    install([package for kind in kinds for package in kind.packages])
    with ExitStack() as up:
        systems: list[System] = []
        for kind in kinds:
            _say(f"starting {kind.name}: {kind.settings} ...")
            system: System = kind(up.enter_context(Lan(MEMBERS)))
            systems.append(up.enter_context(system))
        found = rows(measured(systems, cases(options.sizes, options.seconds), options.rounds))
    settings = {kind.name: kind.settings for kind in kinds}
    if options.json:
        print(json.dumps({"rounds": options.rounds, "settings": settings, "rows": found}, indent=2))
        return
    for line in table(found):
        print(line)


def main() -> int:
    options = chosen()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        run(options)
    except BrokenRunError as error:
        _say(f"error: {error}")
        return FAILED
    except CastbedError as error:
        _say(f"error: {error}")
        return UNAVAILABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
