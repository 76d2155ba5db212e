"""Our side: EOMP in its default variant on `udp`, with one cell.

The first member's process also has the station, the coordinator and the sequencer, as the first member of the peers is
also the one that orders; all other members have a process to themselves. Nothing is captured: the peers record nothing.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from castbed import load_registry
from castbed_testbed.experiment import load
from castbed_testbed.hosting.runner import run
from castbed_testbed.plan import make_plan
from ordering import load as workload
from ordering.cases import MEMBERS, Case, Outcome, Seen, outcome
from ordering.lan import INTERFACE, Lan

HOSTS = [f"h{number}" for number in range(1, MEMBERS + 1)]
FIRST = [HOSTS[0], "S1", "C1", "Q"]
AWAKE = ["S1", HOSTS[-1]]  # the process that orders and the one that sends do not sleep, nor do the cores; see the docs
START_S = 0.3  # until all have entered the cell
REPORT_S, DRAIN_S = 1.2, 1.5  # after the last message was sent
OUTSTANDING, QUEUE = 2000, 4096  # of each sender, and what its queue holds
WINDOW, BUNDLE = 4, "48000B"  # bundles that are on the air before they are acknowledged, and their size
BUFFERED = 1 << 17  # messages that are kept until all have reported them, which hosts do once a second
DATAGRAM = "60000B"  # as JGroups, which bundles up to 64 000 bytes


class Castbed:
    """A run is an experiment of its own, from the start of its processes to their end."""

    name = "castbed"
    packages = ()
    loop = "uvloop" if find_spec("uvloop") is not None else "asyncio"
    settings = (
        f"eomp, {OUTSTANDING} messages outstanding per sender, bundle_bytes {BUNDLE}, window {WINDOW}, "
        f"queue_max {QUEUE}, buffer_max {BUFFERED}, datagrams up to {DATAGRAM}, {loop}, "
        "the processes that order and that send and the cores stay awake, else defaults"
    )

    def __init__(self, lan: Lan) -> None:
        self._lan = lan
        self._registry = load_registry({"group-load": workload}, installed=True)

    def __enter__(self) -> Castbed:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing outlives a run."""

    def run(self, case: Case) -> Outcome:
        with TemporaryDirectory() as folder:
            run(make_plan(load(self._experiment(case, folder)).experiment, self._registry), None)
            seen = [msgspec.json.decode(path.read_bytes(), type=Seen) for path in sorted(Path(folder).iterdir())]
        return outcome(self.name, case, seen, sum(member.cpu_us for member in seen))

    def _experiment(self, case: Case, folder: str) -> dict[str, Any]:
        return {
            "name": "group",
            "protocol": {"name": "eomp", "options": self._options()},
            "transport": {"name": "udp", "options": self._links()},
            "duration": f"{START_S + case.seconds:g}s",
            "drain": f"{DRAIN_S:g}s",
            "topology": {"kind": "three_tier", "coordinators": 1, "stations": 1, "hosts": MEMBERS},
            "workload": {
                "kind": "group-load",
                "senders": HOSTS[MEMBERS - case.senders :],
                "size": case.size,
                "rate": case.rate,
                "outstanding": OUTSTANDING,
                "start": f"{START_S:g}s",
                "report_after": f"{REPORT_S:g}s",
                "folder": folder,
            },
        }

    def _options(self) -> dict[str, Any]:
        return {"window": WINDOW, "bundle_bytes": BUNDLE, "queue_max": QUEUE, "buffer_max": BUFFERED}

    def _links(self) -> dict[str, Any]:
        spaces = {host: self._lan.namespace(member) for member, host in enumerate(HOSTS)}
        spaces |= dict.fromkeys(FIRST, self._lan.namespace(0))
        return {"interface": INTERFACE, "datagram": DATAGRAM, "together": [FIRST], "awake": AWAKE, "namespaces": spaces}
