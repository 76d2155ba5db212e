"""The notation of EOMP's vectors: `a~>M1 MCASTREQ(p,G,{G:0},0)` is one copy on its way; `~` marks the radio.

`Net` is the fixture NET of the spec: sequencer T; C1 with M1 and M2; C2 with M3; hosts a, b, c there, all members of G
and registered. `play` lets copies arrive in the order in which they are written; each has to be in flight, the wires
have to keep their order, and a host hears only the station of its cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from castbed import Packet
from castbed import topology as shapes
from castbed.properties import CHECKS
from castbed.testing import Bench
from castbed.testing.bench import Copy
from castbed_plugins import eomp
from castbed_plugins.eomp import packets as p
from castbed_plugins.eomp.host import RADIO_DUPLICATE

G = 1
SECOND = 10**9
VIOLATIONS = {check.name: check.violations for check in CHECKS}
HOME = {"a": "M1", "b": "M2", "c": "M3"}
REGIONS = {"C1": ("M1", "M2"), "C2": ("M3",)}
FORMS: dict[type[Packet], str] = {
    p.McastReq: "MCASTREQ payload group last tx",
    p.McastReqFrom: "MCASTREQ payload group host last sent tx",
    p.McastAckFor: "MCASTACK tx group host",
    p.McastAck: "MCASTACK tx group",
    p.McastSeq: "MCASTSEQ payload group",
    p.McastDel: "MCASTDEL payload seq group",
    p.SyncSeq: "SYNCSEQ rx host",
    p.Nack: "NACK last",
    p.NackFrom: "NACK last host",
    p.RetransFor: "RETRANS payload seq group host",
    p.Retrans: "RETRANS payload seq group",
    p.SyncAck: "SYNCACK reports",
    p.Greet: "GREET my_mss my_coord last",
    p.GreetFrom: "GREET host last sent my_coord",
    p.GreetAckFor: "GREETACK host",
    p.GreetAck: "GREETACK sent coord",
    p.Cancel: "CANCEL host",
    p.JoinReq: "JOIN group",
    p.JoinFrom: "JOIN host group",
    p.JoinAckFor: "JOINACK host group",
    p.JoinAck: "JOINACK group sent",
    p.LeaveReq: "LEAVE group",
    p.LeaveFrom: "LEAVE host group",
    p.LeaveAckFor: "LEAVEACK host group",
    p.LeaveAck: "LEAVEACK group sent",
    p.Insert: "INSERT host group",
    p.Delete: "DELETE host group",
    p.Replaced: "REPLACED",
    p.Restored: "RESTORED sent groups",
}
NODES = {"host", "my_mss", "my_coord", "coord"}


class Net(Bench):
    """The fixture, after the first GREETs; `heard` collects every line that arrived."""

    def __init__(
        self,
        hosts: Mapping[str, str] | None = None,
        members: str = "abc",
        options: eomp.Options | None = None,
        groups: Mapping[int, str] | None = None,
    ) -> None:
        self.heard: list[str] = []
        topology = shapes.three_tier(REGIONS, hosts or HOME, "T")
        them = {group: tuple(topology.number(n) for n in names) for group, names in (groups or {G: members}).items()}
        topology = shapes.three_tier(REGIONS, hosts or HOME, "T", them)
        super().__init__(eomp.PROTOCOL, topology, "published", options or eomp.Options())
        self.settle()

    def arrive(self, copy: Copy) -> Any:
        self.heard.append(self.line(copy))
        return super().arrive(copy)

    def after(self, count: int) -> Net:
        """NET(k): messages m1 to mk, sent by c, reached everybody."""
        for number in range(1, count + 1):
            self.submit("c", f"m{number}".encode())
            self.settle()
        return self

    def play(self, lines: str) -> None:
        """Let the written copies arrive, or get lost where a line begins with `lost`."""
        for line in filter(None, map(str.strip, lines.splitlines())):
            lost, text = line.startswith("lost "), line.removeprefix("lost ")
            copy = next((copy for copy in self.in_flight if self.line(copy) == text), None)
            assert copy is not None, f"{text} is not in flight; these are:\n" + "\n".join(self.lines())
            assert self.may_pass(copy) or lost, f"{text} cannot arrive now"
            if lost:
                assert self.radio(copy), "wires lose nothing"
                self.in_flight.remove(copy)
            else:
                self.arrive(copy)

    def rest(self, lines: str) -> None:
        """Play the lines; nothing else may be in flight then."""
        self.play(lines)
        assert self.lines() == []

    def settle_but(self, *texts: str) -> None:
        """Let everything arrive, except copies whose line holds one of the texts."""
        self.settle(lambda copy: not any(text in self.line(copy) for text in texts) and self.may_pass(copy))

    def may_pass(self, copy: Copy) -> bool:
        """A wire keeps its order; a host hears the station of its cell."""
        if self.radio(copy):
            host = self.machines.get(copy.to)
            return not isinstance(host, eomp.Host) or self.topology.name(host.cell) == copy.sender
        earlier = self.copies(sender=copy.sender, to=copy.to)
        return earlier[0].serial == copy.serial

    def radio(self, copy: Copy) -> bool:
        ends = self.topology.number(copy.sender), self.topology.number(copy.to)
        return not self.topology.wired(*ends)

    # --- what there is to see ----------------------------------------------------------------------------------------

    def line(self, copy: Copy) -> str:
        tag, *fields = FORMS[type(copy.packet)].split()
        shown = ",".join(self._text(field, getattr(copy.packet, field)) for field in fields)
        return f"{copy.sender}{'~>' if self.radio(copy) else '>'}{copy.to} {tag}({shown})"

    def lines(self) -> list[str]:
        return [self.line(copy) for copy in self.in_flight]

    def _text(self, field: str, value: Any) -> str:
        if field in NODES:
            return self.topology.name(value) if value else "-"
        if field == "reports":
            return "{" + ",".join(f"{self.topology.name(host)}:{_vector(last)}" for host, last in value) + "}"
        if field in ("last", "sent"):
            return _vector(value)
        if field == "groups":
            return "+".join(map(_group, value))
        if field == "group":
            return _group(value)
        return value.decode() if isinstance(value, bytes) else str(value)

    def number(self, name: str) -> int:
        return self.topology.number(name)

    def payloads(self, host: str) -> str:
        """What the host delivered: `m1 m2`."""
        return " ".join(message.payload.decode() for message in self.messages[host])

    def last(self, *hosts: str) -> list[int]:
        return [self.machines[host].last_seq_recv[G] for host in hosts or "abc"]

    def flag(self, station: str, name: str, host: str) -> bool | None:
        return getattr(self.machines[station], name).get(self.number(host))

    def buffered(self, coordinator: str) -> list[int]:
        return sorted(self.machines[coordinator].buffer_list.get(G, {}))

    def acked(self, coordinator: str, host: str) -> dict[int, int] | None:
        return self.machines[coordinator].host_ack.get(self.number(host))

    def radio_duplicates(self) -> list[str]:
        notes = [event for event in self.events if event.text == RADIO_DUPLICATE]
        return [f"{self.topology.name(event.node)} {self.text(event.mid)}" for event in notes]

    def count(self, text: str) -> int:
        """How many copies arrived whose line holds the text."""
        return sum(text in line for line in self.heard)

    def broken(self) -> dict[str, list[str]]:
        """The claims of the paper that the history refutes, with the words of the witnesses."""
        return broken_claims(self)


def broken_claims(bench: Bench) -> dict[str, list[str]]:
    history = bench.history()
    found = {name: [v.words for v in VIOLATIONS[name](history)] for name in bench.chosen.variant.guarantees}
    return {name: words for name, words in found.items() if words}


def _group(group: int) -> str:
    return "G" if group == G else f"G{group}"


def _vector(vector: Any) -> str:
    return "{" + ",".join(_pairs(vector)) + "}"


def _pairs(vector: Any) -> Iterator[str]:
    return (f"{_group(group)}:{number}" for group, number in vector)
