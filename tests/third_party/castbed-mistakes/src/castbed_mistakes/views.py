"""Virtual synchrony: who go from one view to the next have delivered the same messages before.

The node with the lowest number manages the one group. To change its view, it has the members stop and say how much they
have sent; the new view comes with these numbers, and is installed when so many messages are here.
"""

from __future__ import annotations

from castbed import (
    DEFAULT_GROUP,
    Context,
    ContractError,
    Group,
    Machine,
    Message,
    NodeNumber,
    Packet,
    PeerError,
    Protocol,
    Variant,
    View,
    on,
)
from castbed.commands import Join, Leave, group_number

from castbed_mistakes.common import ORDER_OF_NOTHING, WAITING_MAX, Carrier

GROUP: Group = DEFAULT_GROUP


class Data(Carrier, frozen=True, tag=1):
    """A message, and the view in which it was sent."""

    view: int


class Wish(Packet, frozen=True, tag=2):
    """Its sender wants to join, or to leave."""

    joins: bool


class Stop(Packet, frozen=True, tag=3):
    """Send nothing more in the view before this one."""

    view: int


class Stopped(Packet, frozen=True, tag=4):
    """How much its sender has sent in the view before this one."""

    view: int
    sent: int


class NewView(Packet, frozen=True, tag=5):
    """The next view, who came or went, and how much each member sent in the last one."""

    view: int
    members: tuple[NodeNumber, ...]
    changed: NodeNumber
    sent: tuple[tuple[NodeNumber, int], ...]


class Manager(Machine):
    """Changes the view for one node at a time."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self._view = 0
        self._members = context.topology.groups.get(GROUP, ())
        self._wishes: list[tuple[NodeNumber, bool]] = []
        self._changing: NodeNumber | None = None
        self._sent: dict[NodeNumber, int] = {}

    @on(Wish)
    def wished(self, packet: Wish, sender: NodeNumber) -> None:
        if sender not in self.context.topology.numbers() or len(self._wishes) >= WAITING_MAX:
            raise PeerError(f"{sender} is nobody, or too many wishes wait")
        self._wishes.append((sender, packet.joins))
        self._begin()

    def _begin(self) -> None:
        while self._changing is None and self._wishes:
            node, joins = self._wishes.pop(0)
            if joins != (node in self._members):
                self._changing = node
                self.multicast(self._members, Stop(self._view + 1))
                self._change_if_all_stopped()

    @on(Stopped)
    def stopped(self, packet: Stopped, sender: NodeNumber) -> None:
        if self._changing is None or packet.view != self._view + 1 or sender not in self._members:
            raise PeerError(f"{sender} stopped for view {packet.view}")
        self._sent[sender] = packet.sent
        self._change_if_all_stopped()
        self._begin()

    def _change_if_all_stopped(self) -> None:
        if self._changing is None or len(self._sent) < len(self._members):
            return
        changed, before = self._changing, set(self._members)
        self._view += 1
        self._members = tuple(sorted(before ^ {changed}))
        told = sorted(before | {changed})
        self.multicast(told, NewView(self._view, self._members, changed, tuple(sorted(self._sent.items()))))
        self._changing = None
        self._sent.clear()


class Synchronous(Machine):
    """A member, or a node that may become one."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self.delivered: dict[NodeNumber, int] = {}
        self._manager = min(context.topology.numbers())
        self._view: View | None = None
        self._stops = 0
        self._stopped = False
        self._unsent: list[Message] = []
        self._early: list[Data] = []
        self._coming: dict[int, NewView] = {}
        if self.me == self._manager:
            self.part("manager", Manager)

    def view_changed(self, view: View) -> None:
        """The first view is that of the topology."""
        if view.group == GROUP:
            self._view = view

    @on(Join)
    def joining(self, command: Join) -> None:
        self._wish(command.group, joins=True)

    @on(Leave)
    def leaving(self, command: Leave) -> None:
        self._wish(command.group, joins=False)

    def _wish(self, group: str, joins: bool) -> None:
        if group_number(group, self.context.topology) != GROUP or joins == (self._view is not None):
            raise ContractError(f"group {group} is not one to {'join' if joins else 'leave'} now")
        self.send(self._manager, Wish(joins))

    # --- messages ----------------------------------------------------------------------------------------------------

    def submitted(self, message: Message) -> None:
        if message.to is not None or message.group != GROUP or self._view is None:
            self.refuse(message, "only members send, and only to their whole group")
        elif self._stopped and len(self._unsent) >= WAITING_MAX:
            self.refuse(message, "too many messages wait for the next view")
        elif self._stopped:
            self._unsent.append(message)
        else:
            self._say(message, self._view)

    def _say(self, message: Message, view: View) -> None:
        numbered = self.accept(message)
        others = [member for member in view.members if member != self.me]
        packet = Data(numbered.group, numbered.mid, numbered.payload, numbered.parent, view.number)
        if others:
            self.multicast(others, packet)
        self._deliver(packet)

    @on(Data)
    def received(self, packet: Data, sender: NodeNumber) -> None:
        if packet.mid.sender != sender or packet.group != GROUP or len(self._early) >= WAITING_MAX:
            raise PeerError(f"{sender} sent a message as {packet.mid}, or too many wait")
        if self._view is None or packet.view > self._view.number:
            self._early.append(packet)
            return
        self._deliver(packet)
        self._go_on()

    def _deliver(self, packet: Data) -> None:
        writer = packet.mid.sender
        self.delivered[writer] = self.delivered.get(writer, 0) + 1
        self.deliver(packet.message)

    # --- views -------------------------------------------------------------------------------------------------------

    @on(Stop)
    def stop(self, packet: Stop, sender: NodeNumber) -> None:
        self._check_manager(sender)
        self._stops = max(self._stops, packet.view)
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self._view is not None and self._stops == self._view.number + 1 and not self._stopped:
            self._stopped = True
            self.send(self._manager, Stopped(self._stops, self.delivered.get(self.me, 0)))

    @on(NewView)
    def changed(self, packet: NewView, sender: NodeNumber) -> None:
        self._check_manager(sender)
        if len(self._coming) >= WAITING_MAX:
            raise PeerError("too many views are coming")
        self._coming[packet.view] = packet
        self._go_on()

    def _check_manager(self, sender: NodeNumber) -> None:
        if sender != self._manager:
            raise PeerError(f"{sender} does not manage the group")

    def _go_on(self) -> None:
        """Install what can be installed, one view after the other."""
        following = self._following()
        while following is not None and (self._view is None or self.is_complete(following)):
            del self._coming[following.view]
            self._install(following)
            following = self._following()

    def _following(self) -> NewView | None:
        """The view that comes next here: after the present one or, for a node outside, the one that takes it in."""
        if self._view is not None:
            return self._coming.get(self._view.number + 1)
        ours = (view for view in self._coming.values() if view.changed == self.me and self.me in view.members)
        return next(ours, None)

    def is_complete(self, following: NewView) -> bool:
        """Whether all messages of the present view are delivered here."""
        return all(self.delivered.get(node, 0) >= count for node, count in following.sent)

    def _install(self, packet: NewView) -> None:
        self.delivered = {}
        self._stopped = False
        if self.me not in packet.members:
            self._outside()
            return
        if self._view is None:
            self.join(GROUP)
        self._view = view = View(GROUP, packet.view, packet.members)
        self.install(view)
        early, self._early = self._early, []
        for waiting in early:
            self._deliver(waiting) if waiting.view <= view.number else self._early.append(waiting)
        self._stop_if_asked()
        self._say_unsent(view)

    def _outside(self) -> None:
        self._view = None
        self.leave(GROUP)
        for message in self._unsent:
            self.refuse(message, "left the group")
        self._unsent.clear()

    def _say_unsent(self, view: View) -> None:
        if not self._stopped:
            unsent, self._unsent = self._unsent, []
            for message in unsent:
                self._say(message, view)


class ViewFirst(Synchronous):
    """The mistake: a view is installed when it comes, whatever is still on its way."""

    def is_complete(self, following: NewView) -> bool:
        return True


NEEDS = frozenset({"air", "reliable_air", "no_crash", "no_absence"})
GUARANTEES = (
    *ORDER_OF_NOTHING,
    "self_inclusion",
    "view_monotonicity",
    "sending_view_delivery",
    "same_view_delivery",
    "virtual_synchrony",
    "convergent_views",
)

PROTOCOL = Protocol(
    name="example-views",
    summary="Virtual synchrony: a view comes after all messages of the last one",
    model="broadcast",
    packets=(Data, Wish, Stop, Stopped, NewView),
    commands=(Join, Leave),
    variants={
        "correct": Variant({"member": Synchronous}, NEEDS, GUARANTEES),
        "view-before-messages": Variant({"member": ViewFirst}, NEEDS, GUARANTEES, "Installs a view when it comes"),
    },
)
