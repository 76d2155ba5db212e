"""What carries frames between real nodes: the interface that adapters implement and the asyncio host uses.

A *network* is what a whole run has: it is made and opened in the controller and taken along into the process of every
node. *Links* are what one node has: its air and its wires. A frame is handed over as bytes; how it travels, alone or
with others, is the adapter's business. Links queue what they are given until `flush`, and carry it in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from castbed.handshake import Handshake
from castbed.packets import Packet
from castbed.topology import Topology
from castbed.values import NOBODY, NodeNumber

Cell = int
"""Where a node is on the air: the number of the station whose cell it is in, NOBODY for the one shared air."""

SHARED_AIR: Cell = NOBODY
NOWHERE: Cell = -1
"""Out of everybody's range."""


class LinkOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of every transport that hosts nodes in processes.

    `processes` shares the nodes out among so many processes; left out, each node has one, or many nodes share one per
    core. `together` lists, by name, nodes that share a process with each other and nobody else. A node that crashes has
    a process to itself in any case. The process of a node that is named in `awake` never sleeps: it looks again and
    again for what came in, which takes a core, unless others want it; and no core of the machine sleeps during the run,
    because a process of the lowest priority keeps each of them busy. So all nodes are woken sooner.
    """

    processes: Annotated[int, msgspec.Meta(ge=1, le=4096)] | None = None
    together: list[Annotated[list[str], msgspec.Meta(min_length=1)]] = []
    awake: list[str] = []


Prover = Callable[[bytes, bytes], Handshake]
"""Begins a handshake with this role, about something that both ends know."""


class RunSetting(msgspec.Struct, frozen=True):
    """The run that a network is made for. `token` tells its frames from those of all other runs.

    Where the experiment has a key, `prover` is there: nodes that connect to each other prove with it that they have it.
    """

    token: bytes
    topology: Topology
    options: Any
    captured: bool = True
    experiment: Any = None
    blocks: Sequence[Any] = ()
    """The whole experiment and its blocked directions, for networks that shape their media themselves."""
    prover: Prover | None = None


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A frame that came in. `to` are those whom it was meant for (nobody: everybody who heard it).

    `at` is the kernel's time of reception (CLOCK_REALTIME, nanoseconds), 0 where the link has none. `inside` is what
    the frame carries, and who sent it, where a node of the same process did and nobody has to decode it; there may be
    no frame then.
    """

    on_wire: bool
    to: tuple[NodeNumber, ...]
    frame: bytes
    at: int
    inside: tuple[Packet, NodeNumber] | None = None


Heard = Callable[[Sequence[Arrival]], None]
"""Called once per wake-up with everything that came in."""


class Links(Protocol):
    """The links of one node, in its process.

    `counters` holds everything that was dropped, by reason: `malformed`, `foreign`, `oversize`, `queue_full`,
    `out_of_range`, `overrun`, `peer_down`, ... `congested` asks the host to let its applications wait. `neighbours` are
    the nodes to which packets go as they are, because they live in this process and nothing there asks for the size.
    """

    counters: Counter[str]
    air_frame_bytes_max: int
    neighbours: set[NodeNumber] | frozenset[NodeNumber]

    @property
    def congested(self) -> bool: ...

    async def open(self) -> Any:
        """Bind, join and listen; returns what the others need to reach this node, as plain data."""

    async def connect(self, addresses: Mapping[NodeNumber, Any]) -> Mapping[NodeNumber, str]:
        """Reach these nodes; when it returns, both directions work, but for those that it returns, with a reason."""

    def listen(self, heard: Heard) -> None:
        """Hand over what comes in from now on, and what has come in since `open`."""

    def poll(self) -> None:
        """After `listen`: hand over at once what is there on the air; for processes that never sleep."""

    def tune(self, cell: Cell) -> None:
        """Be in this cell from now on."""

    def transmit(self, frame: bytes, to: tuple[NodeNumber, ...]) -> None:
        """On the air: to everybody in the cell, or (`to`) to those of the listed nodes that are in it."""

    def forward(self, frame: bytes, to: NodeNumber, packet: Packet | None = None) -> None:
        """On the wire to a fixed node; `packet` is what the frame carries, which `neighbours` need no frame for."""

    def flush(self) -> None:
        """Send what was queued."""

    async def close(self) -> None:
        """Send what is queued, and let go of everything."""


class Network(Protocol):
    """What a run has of a network: opened before its nodes are started, closed when they are gone.

    `shapes_air` says that what is on its air takes as long there as the experiment wants. `strikes_air` says that the
    network itself loses, doubles, reorders and cuts it, and counts that in `effects`; otherwise the host does it at the
    receiver. `emulates_wires` asks the host to hold back what comes over wires as long as it would travel on those of
    the experiment.
    """

    shapes_air: bool
    strikes_air: bool
    emulates_wires: bool

    def open(self) -> None:
        """Make what the run needs; UnavailableError where this machine cannot."""

    def links(self, node: NodeNumber) -> Links:
        """The links of one node; called in its process, where `enter` was called before."""

    def enter(self, node: NodeNumber) -> None:
        """Called in the process of a node before its links are made: go to where its network is."""

    def begin(self, origin: int) -> None:
        """In the controller: time 0 of the run is at `origin` (CLOCK_MONOTONIC, nanoseconds)."""

    def moved(self, node: NodeNumber, cell: Cell) -> None:
        """In the controller: the node is in this cell from now on; NOWHERE also for a node that is down."""

    def check(self) -> None:
        """In the controller, again and again: UnavailableError when the network carries nothing any more."""

    def effects(self) -> Mapping[str, int]:
        """In the controller, before `close`: how often each fault took effect in the network itself."""

    def counters(self) -> Mapping[str, int]:
        """In the controller, before `close`: what the network itself dropped, by reason."""

    def close(self) -> None:
        """Remove everything that `open` made; may be called from another process than `open` was, and twice."""
