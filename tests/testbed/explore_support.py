"""What the tests of exploration share: arenas by name, a protocol with a mistake, batches in this process."""

from __future__ import annotations

from castbed import Context, Machine, Message, Packet, Protocol, Registry, Variant, hookimpl, load_registry, on
from castbed.registry import Register
from castbed.values import Group, Mid
from castbed_testbed.explore.arena import Arena, Setup
from castbed_testbed.explore.script import parse

BROADCAST = {"kind": "broadcast", "members": ["A", "B", "C"]}
CELLS = {
    "kind": "three_tier",
    "coordinators": {"C1": ["S1", "S2"], "C2": ["S3"]},
    "hosts": {"h1": "S1", "h2": "S2", "h3": "S3"},
}


class Said(Packet, frozen=True, tag=1):
    """A message."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None


class Hasty(Machine):
    """Delivers whatever comes, in the order in which it comes, and stumbles over a message that says so."""

    def submitted(self, message: Message) -> None:
        sent = self.accept(message)
        self.deliver(sent)
        self.broadcast(Said(sent.group, sent.mid, sent.payload, sent.parent))

    @on(Said)
    def said(self, packet: Said, _sender: int) -> None:
        self.deliver(Message(packet.mid, packet.group, packet.payload, packet.parent))


class Clumsy(Hasty):
    """Raises what no machine may raise when it hears a second message."""

    def __init__(self, context: Context, options: object) -> None:
        super().__init__(context, options)
        self.heard = 0

    @on(Said)
    def said(self, packet: Said, sender: int) -> None:
        self.heard += 1
        if self.heard == 2:
            raise KeyError("the second message")
        super().said(packet, sender)


class Stumbling(Hasty):
    """Raises what no machine may raise when it starts."""

    def started(self) -> None:
        raise KeyError("the start")


class Paired(Hasty):
    """Cannot be without anybody else."""

    def started(self) -> None:
        min(node for node in self.context.topology.numbers() if node != self.me)


class Echoing(Hasty):
    """Says again whatever it hears."""

    @on(Said)
    def said(self, packet: Said, sender: int) -> None:
        if self.heard_first(packet.mid):
            super().said(packet, sender)
        self.broadcast(packet)

    def heard_first(self, mid: Mid) -> bool:
        heard: set[Mid] = self.__dict__.setdefault("heard", set())
        new = mid not in heard and mid.sender != self.me
        heard.add(mid)
        return new


class Repeating(Hasty):
    """Delivers its own message again, whenever its timer runs out."""

    def submitted(self, message: Message) -> None:
        super().submitted(message)
        self.last = message
        self.set_timer("again #1", 10**8)

    def expired(self, timer: object) -> None:  # noqa: ARG002 (there is one)
        self.note("again")
        self.join(2)
        self.leave(2)
        self.set_timer("again #1", 10**8)


class Calling(Machine):
    """A station that says what it submits into its cell."""

    def submitted(self, message: Message) -> None:
        sent = self.accept(message)
        self.broadcast(Said(sent.group, sent.mid, sent.payload, sent.parent))


class Hearing(Machine):
    """A host that delivers what it hears."""

    @on(Said)
    def said(self, packet: Said, _sender: int) -> None:
        self.deliver(Message(packet.mid, packet.group, packet.payload, packet.parent))


def _variant(machine: type[Machine], *needs: str) -> Variant:
    return Variant(
        {"member": machine}, frozenset({"air", *needs}), ("integrity", "no_duplication", "fifo", "agreement")
    )


RELIABLE = ("reliable_air", "no_crash", "no_absence")
HASTY = Protocol(
    "hasty",
    "Takes the order of arrival for the order of sending",
    "broadcast",
    (Said,),
    {
        "published": _variant(Hasty, *RELIABLE),
        "fifo": _variant(Hasty, *RELIABLE, "fifo_air"),
        "careless": _variant(Hasty, "no_crash", "no_absence", "fifo_air"),
        "roaming": _variant(Hasty, "no_crash", "fifo_air"),
        "clumsy": _variant(Clumsy, *RELIABLE, "fifo_air"),
        "stumbling": _variant(Stumbling, *RELIABLE, "fifo_air"),
        "paired": _variant(Paired, *RELIABLE),
        "echoing": _variant(Echoing, *RELIABLE, "fifo_air"),
        "repeating": _variant(Repeating, *RELIABLE, "fifo_air"),
    },
)
CALLING = Protocol(
    "calling",
    "Stations call into their cells",
    "cellular",
    (Said,),
    {"published": Variant({"station": Calling, "host": Hearing}, frozenset({"air", *RELIABLE}), ("integrity",))},
)


class Plugin:
    """Registers the hasty protocol."""

    @hookimpl
    def castbed_protocols(self, register: Register[Protocol]) -> None:
        register.add(HASTY)
        register.add(CALLING)


REGISTRY: Registry = load_registry(extra={"hasty": Plugin()})


def arena(protocol: str, variant: str, topology: dict[str, object] | None = None) -> Arena:
    shape = topology or (CELLS if protocol in ("eomp", "relm") else BROADCAST)
    return Arena(Setup(protocol, variant, shape), REGISTRY)


def script(steps: str, protocol: str = "hasty", variant: str = "published", header: str = "") -> str:
    """The text of a script with three members."""
    lines = [line.strip() for line in steps.strip().splitlines()]
    top = [f'protocol = {{ name = "{protocol}", variant = "{variant}" }}', 'topology = { members = ["A", "B", "C"] }']
    return "\n".join([*top, header, "steps:", *lines]) + "\n"


__all__ = ["BROADCAST", "CELLS", "HASTY", "REGISTRY", "Plugin", "arena", "parse", "script"]
