"""The fixture NET of the spec with repaired machines: sequencer T; C1 with M1 and M2; C2 with M3; hosts a, b, c there.

Lines name the packet's type and its fields, as in `M1~>a Taken(a1)`; `~` marks the radio.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eomp_bench import HOME, REGIONS, G, Net

from castbed import Message, Mid
from castbed import topology as shapes
from castbed.testing import Bench
from castbed.testing.bench import Copy
from castbed_plugins import eomp
from castbed_plugins.eomp.repaired import RepairedHost

BACKGROUND = ("Beat(", "SyncAck(", "Commit(", "Prepare(", "PrepareOk(")


class RepairedNet(Net):
    """NET after the first greetings; nothing arrives and no timer runs out unless a test says so."""

    def __init__(
        self,
        members: str = "abc",
        options: eomp.Options | None = None,
        groups: Mapping[int, str] | None = None,
        hosts: Mapping[str, str] | None = None,
    ) -> None:
        self.heard: list[str] = []
        places = hosts or HOME
        topology = shapes.three_tier(REGIONS, places, "T")
        them = {group: tuple(topology.number(n) for n in names) for group, names in (groups or {G: members}).items()}
        topology = shapes.three_tier(REGIONS, places, "T", them)
        Bench.__init__(self, eomp.PROTOCOL, topology, "repaired", options or eomp.Options())
        self.settle()

    def may_pass(self, copy: Copy) -> bool:
        if self.radio(copy):
            host = self.machines.get(copy.to)
            return not isinstance(host, RepairedHost) or self.topology.name(host.cell) == copy.sender
        return self.copies(sender=copy.sender, to=copy.to)[0].serial == copy.serial

    def line(self, copy: Copy) -> str:
        packet = copy.packet
        fields = {name: getattr(packet, name) for name in packet.__struct_fields__}
        if "mid" in fields:
            fields = {"mid": self.text(fields["mid"]), **{k: v for k, v in fields.items() if k == "seq"}}
        shown = ",".join(self._shown(name, value) for name, value in fields.items() if name != "payload")
        return f"{copy.sender}{'~>' if self.radio(copy) else '>'}{copy.to} {type(packet).__name__}({shown})"

    def _shown(self, name: str, value: Any) -> str:
        return self.topology.name(value) if name == "host" else str(value)

    def quiet(self) -> list[str]:
        """The lines in flight but for what core nodes say to each other and to stations anyway."""
        return [line for line in self.lines() if not any(word in line for word in BACKGROUND)]

    def pass_time(self, seconds: float) -> None:
        """Everything arrives at once, timers run out when they are due."""
        self.run(int(seconds * 10**9))

    def all_have(self, payloads: str, hosts: str = "abc") -> None:
        assert {host: self.payloads(host) for host in hosts} == dict.fromkeys(hosts, payloads)

    def last(self, *hosts: str) -> list[int]:
        return [self.machines[host].inbox.last[G] for host in hosts or "abc"]

    def message(self, host: str, at: int) -> Message:
        return self.messages[host][at]

    def mid_of(self, host: str, number: int, life: int = 0) -> Mid:
        return Mid(self.number(host), number, life)
