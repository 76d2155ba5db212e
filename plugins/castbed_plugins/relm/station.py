"""The mobile support station (MSS): one unicast per host, repeated until acknowledged; relays everything else."""

from __future__ import annotations

from castbed import NOBODY, Context, NodeNumber, on
from castbed_plugins.relm.blame import expect
from castbed_plugins.relm.bystander import Bystander
from castbed_plugins.relm.options import Options
from castbed_plugins.relm.packets import (
    Ack,
    Data,
    Downward,
    Forward,
    Hello,
    HelloAck,
    JoinAck,
    JoinRequest,
    Key,
    LeaveAck,
    LeaveRequest,
    Pull,
    Pulled,
)


class Station(Bystander):
    """One cell: who is in it, and what its hosts have not acknowledged."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.supervisor = context.topology.parent[self.me]
        begin = context.topology.attached
        self.present = {host for host, station in begin.items() if station == self.me}
        """The hosts in the cell, as far as the supervisor agrees: only then will it pull them away again."""
        self.gone: dict[NodeNumber, tuple[int, NodeNumber]] = {}
        """The hosts that were pulled away: by which move, and to which supervisor."""
        self.queue: dict[NodeNumber, dict[Key, Data]] = {}

    # --- down --------------------------------------------------------------------------------------------------------

    @on(Downward)
    def data(self, packet: Downward, sender: NodeNumber) -> None:
        """MSS-1: queue for those who are here; for those who are not, handoff step 7."""
        expect(sender == self.supervisor, "a message that is not from the supervisor")
        expect(all(map(self.is_known, packet.hosts)), "a message for a host that was never here")
        for host in packet.hosts:
            self.enqueue(host, Data(packet.group, packet.mid, packet.payload, packet.parent))

    @on(Forward)
    def forwarded(self, packet: Forward, sender: NodeNumber) -> None:
        """Handoff step 6: what was not delivered elsewhere comes before anything newer, for wires are FIFO."""
        expect(sender == self.supervisor and self.is_known(packet.host), "a message for a host that was never here")
        self.enqueue(packet.host, Data(packet.group, packet.mid, packet.payload, packet.parent))

    def is_known(self, host: NodeNumber) -> bool:
        return host in self.present or host in self.gone

    def enqueue(self, host: NodeNumber, data: Data) -> None:
        if host in self.present:
            self.queue.setdefault(host, {})[data.key] = data
            self.transmit(host, data)
        else:
            self.pass_on(host, data, *self.gone[host])

    def transmit(self, host: NodeNumber, data: Data) -> None:
        """MSS-2: unicast on the air, and T_ARQ from when it is sent: waiting in the queue is no loss."""
        self.send(host, data)
        self.set_timer((host, data.key), self.options.arq, when_sent=True)

    def expired(self, timer: tuple[NodeNumber, Key]) -> None:
        """MSS-2: not acknowledged in time and still in the cell, so at the end of the queue again."""
        host, key = timer
        self.transmit(host, self.queue[host][key])

    @on(HelloAck)
    def welcomed(self, packet: HelloAck, sender: NodeNumber) -> None:
        """Handoff step 1: the supervisor knows that the host is here, unless it has heard of a later move since."""
        self.relay_down(packet, sender)
        if packet.move > self.gone.get(packet.host, (0, NOBODY))[0]:
            self.gone.pop(packet.host, None)
            self.present.add(packet.host)

    @on(JoinAck, LeaveAck)
    def relay_down(self, packet: HelloAck | JoinAck | LeaveAck, sender: NodeNumber) -> None:
        expect(sender == self.supervisor, "an answer that is not from the supervisor")
        self.context.topology.check(packet.host, "host")
        self.send(packet.host, packet)

    # --- up ----------------------------------------------------------------------------------------------------------

    @on(Ack)
    def acknowledged(self, packet: Ack, sender: NodeNumber) -> None:
        """MSS-3: drop the copy and relay."""
        expect(sender == packet.host, "an acknowledgement for another host")
        self.forget(packet.host, (packet.group, packet.mid))
        self.send(self.supervisor, packet)

    def forget(self, host: NodeNumber, key: Key) -> None:
        if self.queue.get(host, {}).pop(key, None) is not None:
            self.cancel_timer((host, key))

    @on(JoinRequest, LeaveRequest)
    def relay_up(self, packet: JoinRequest | LeaveRequest, sender: NodeNumber) -> None:
        expect(sender == packet.host, "a request for another host")
        self.send(self.supervisor, packet)

    @on(Hello)
    def hello(self, packet: Hello, sender: NodeNumber) -> None:
        """Handoff step 1: on to the supervisor."""
        expect(sender == packet.host, "a greeting for another host")
        self.send(self.supervisor, packet)

    # --- away --------------------------------------------------------------------------------------------------------

    @on(Pull)
    def pull(self, packet: Pull, sender: NodeNumber) -> None:
        """Handoff step 3: forward all that is not acknowledged, in order; what was delivered counts as acknowledged."""
        expect(sender == self.supervisor and self.is_known(packet.host), "a pull of a host that was never here")
        self.context.topology.check(packet.to, "coordinator")
        self.present.discard(packet.host)
        self.gone[packet.host] = packet.move, packet.to
        delivered = {(group, source): number for group, source, number in packet.last}
        for key, data in self.queue.pop(packet.host, {}).items():
            self.cancel_timer((packet.host, key))
            if data.mid.seqno <= delivered.get((data.group, data.mid.sender), 0):
                self.send(self.supervisor, Ack(*key, packet.host))
            else:
                self.pass_on(packet.host, data, packet.move, packet.to)
        self.send(self.supervisor, Pulled(packet.host, packet.move, packet.to, stale=False))

    def pass_on(self, host: NodeNumber, data: Data, move: int, to: NodeNumber) -> None:
        """Handoff steps 3 and 7: by way of the supervisors."""
        forward = Forward(data.group, data.mid, data.payload, data.parent, host, move, to)
        self.send(self.supervisor, forward)
