"""What travels in repaired EOMP. A packet keeps its type from hop to hop wherever its fields stay the same.

The identity of a message is the number of the request; of messages that had to wait, several travel as a bundle. `last`
is what a host has of each of its groups without a gap, `early` the ranges that it has beyond, `sent` what a station has
put on the air. `memory` is the life in which the host last had to begin without its storage. CANCEL and SYNCACK are
those of the paper (`castbed_plugins.eomp.packets`).
"""

from __future__ import annotations

from castbed import Group, Mid, NodeNumber, Number, Packet
from castbed_plugins.eomp.packets import Carrier, content
from castbed_plugins.eomp.repaired.bundles import Bundle, contents
from castbed_plugins.eomp.vectors import Vector

Ranges = tuple[tuple[Group, Number, Number], ...]
"""Numbers of groups, from the first to the last of each range."""

Stint = tuple[Number, Number]
"""Which stay of a host in a group is meant: the life of the host that asked, and which question of that life it was."""


class Request(Carrier, frozen=True, tag=40):
    """MCASTREQ, host to station to coordinator to the leader: number this, after everything that I sent before."""


class Taken(Packet, frozen=True, tag=41):
    """MCASTACK, coordinator to station to host: the requests of that life up to this one have their numbers."""

    mid: Mid


class Numbered(Carrier, frozen=True, tag=42):
    """MCASTDEL, coordinator to stations to the members in the cells: message `seq` of its group.

    It is message `number` of all groups together; `before` says how many messages the other groups had then.
    """

    seq: Number
    number: Number
    before: Vector


class Report(Packet, frozen=True, tag=43):
    """NACK, host to station: what I have; acknowledges, and asks for the rest of what was sent up to `upto`.

    A report that closes a gap names what the host has heard of, so that nothing that is on the air is repeated; one
    without `upto` asks for all that the station has sent.
    """

    last: Vector
    early: Ranges
    memory: Number
    upto: Vector


class ReportFrom(Packet, frozen=True, tag=44):
    """NACK and GREET, station to coordinator; what the station has not sent yet need not be repeated."""

    host: NodeNumber
    last: Vector
    early: Ranges
    memory: Number
    upto: Vector


class Repeat(Carrier, frozen=True, tag=45):
    """RETRANS, coordinator to station to host; with `more`, the host lacks more than this batch and is to report."""

    seq: Number
    number: Number
    before: Vector
    host: NodeNumber
    more: bool


class Enter(Packet, frozen=True, tag=46):
    """GREET, host to new station: a report, and where I was registered."""

    my_mss: NodeNumber
    last: Vector
    early: Ranges
    memory: Number


class Entered(Packet, frozen=True, tag=47):
    """GREETACK, station to host."""

    sent: Vector


class Ask(Packet, frozen=True, tag=48):
    """JOIN or LEAVE, host to station to coordinator to the leader."""

    group: Group
    host: NodeNumber
    stint: Stint
    joins: bool


class Admitted(Packet, frozen=True, tag=49):
    """JOINACK, coordinator to station to host: your first message is the one after `start`."""

    group: Group
    host: NodeNumber
    stint: Stint
    start: Number


class Dismissed(Packet, frozen=True, tag=50):
    """LEAVEACK, coordinator to station to host; unasked for, it says that the host was expelled."""

    group: Group
    host: NodeNumber
    stint: Stint


class Beat(Packet, frozen=True, tag=51):
    """Coordinator to stations: I am here, and sent you all this."""

    sent: Vector


class Adopt(Packet, frozen=True, tag=52):
    """Station to coordinator: serve me, from here on."""

    sent: Vector


class Adopted(Packet, frozen=True, tag=53):
    """Coordinator to station: what you lacked came just before, unless it was too much; these groups have members."""

    sent: Vector
    groups: tuple[Group, ...]


class Release(Packet, frozen=True, tag=54):
    """Station to a coordinator that stood in for its own: serve me no longer."""


class BundleRequest(Bundle, frozen=True, tag=55):
    """MCASTREQ of several messages: number them one after the other."""


class BundleNumbered(Bundle, frozen=True, tag=56):
    """MCASTDEL of several messages: `seq`, `number` and `before` are those of the first, the others follow it."""

    seq: Number
    number: Number
    before: Vector


class BundleRepeat(Bundle, frozen=True, tag=57):
    """RETRANS of several messages."""

    seq: Number
    number: Number
    before: Vector
    host: NodeNumber
    more: bool


AnyRequest = Request | BundleRequest
AnyNumbered = Numbered | BundleNumbered
AnyRepeat = Repeat | BundleRepeat

REPAIRED_PACKETS: tuple[type[Packet], ...] = (
    Request, Taken, Numbered, Report, ReportFrom, Repeat, Enter, Entered,
    Ask, Admitted, Dismissed, Beat, Adopt, Adopted, Release, BundleRequest, BundleNumbered, BundleRepeat,
)  # fmt: skip


def repeated(packet: AnyNumbered, host: NodeNumber, more: bool) -> AnyRepeat:
    """The packet once more, for one host."""
    numbers = packet.seq, packet.number, packet.before
    if isinstance(packet, BundleNumbered):
        return BundleRepeat(*contents(packet), *numbers, host, more)
    return Repeat(*content(packet.message), *numbers, host, more)
