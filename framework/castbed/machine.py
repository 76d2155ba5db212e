"""The one door of a protocol: events in, actions out.

A machine is one node's part in a protocol, one subclass per role. Handlers do the work and *ask* (send, deliver,
set_timer, ...); `step` collects what they asked for. Nothing else changes a machine, and a machine touches nothing
else: no socket, clock, thread, file or random source but those of its context.

Machines compose: `part` makes a machine that lives inside this one. A part's asks land in the same list of actions, its
timers, packets and commands find their way back to it, and its owner calls its methods directly.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec

from castbed.actions import (
    Accept,
    Action,
    Broadcast,
    CancelTimer,
    Deliver,
    Gauge,
    Hold,
    Install,
    Join,
    Leave,
    Multicast,
    Note,
    Persist,
    Refuse,
    Send,
    SetTimer,
    Tell,
)
from castbed.context import Context
from castbed.errors import ContractError, PeerError
from castbed.events import Event, TimerName
from castbed.packets import Command, Notice, Packet
from castbed.values import Group, Message, Mid, NodeNumber, View

Handler = Callable[..., None]
H = TypeVar("H", bound=Handler)
M = TypeVar("M", bound="Machine")

NOTHING: tuple[Action, ...] = ()


def on(*types: type[Packet] | type[Command]) -> Callable[[H], H]:
    """Mark a method as the handler of these packet types (`packet, sender`) or commands (`command`)."""

    def mark(handler: H) -> H:
        handler.__castbed_on__ = types  # type: ignore[attr-defined]
        return handler

    return mark


def _started(machine: Machine, first: None, second: None) -> None:  # noqa: ARG001 (all handlers are called alike)
    machine.started()


def _submitted(machine: Machine, message: Message, second: None) -> None:  # noqa: ARG001
    machine.submitted(message)


def _submitted_together(machine: Machine, messages: Sequence[Message], second: None) -> None:  # noqa: ARG001
    machine.submitted_together(messages)


def _expired(machine: Machine, timer: TimerName, second: None) -> None:  # noqa: ARG001
    machine._expired(timer)


def _attached(machine: Machine, station: NodeNumber, second: None) -> None:  # noqa: ARG001
    machine.attached(station)


def _detached(machine: Machine, first: None, second: None) -> None:  # noqa: ARG001
    machine.detached()


def _view_changed(machine: Machine, view: View, second: None) -> None:  # noqa: ARG001
    machine.view_changed(view)


def _given_command(handler: Handler) -> Handler:
    return lambda machine, command, second: handler(machine, command)


def _of_part(part: Machine, handler: Handler) -> Handler:
    return lambda machine, first, second: handler(part, first, second)


class Machine:
    """One node's part in a protocol. Subclasses write handlers; hosts call `step` and carry out what it returns."""

    _handlers: Mapping[Hashable, Handler] = {
        "started": _started,
        "submitted": _submitted,
        "submitted_together": _submitted_together,
        "expired": _expired,
        "attached": _attached,
        "detached": _detached,
        "view_changed": _view_changed,
    }
    """By key of the event. One table serves all machines of a class; a machine with parts has its own."""
    _named: ClassVar[dict[type[Packet] | type[Command], str]] = {}

    now: int
    """The host's time in nanoseconds, during a step."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._named = dict(cls._named)
        for name, member in vars(cls).items():
            for handled in getattr(member, "__castbed_on__", ()):
                cls._named[handled] = name
        handlers = dict(Machine._handlers)
        for handled, name in cls._named.items():
            handler = getattr(cls, name)
            handlers[handled] = _given_command(handler) if issubclass(handled, Command) else handler
        cls._handlers = handlers

    def __init__(self, context: Context, options: Any = None) -> None:
        self.context = context
        self.options = options
        self.me = context.me
        self.now = 0
        self._actions: list[Action] = []
        self._accepted = 0
        self._owner: tuple[Machine, Hashable] | None = None
        self._parts: dict[Hashable, Machine] = {}
        self._routed: list[Hashable] = []
        self._handlers = type(self)._handlers  # again here, because Python finds it quicker so

    # --- the door --------------------------------------------------------------------------------------------------

    def step(self, event: Event, now: int) -> Sequence[Action]:
        """Let one event happen; returns what the host must do, in order."""
        self.now = now
        if self._parts:
            self._tell_time(now)
        try:
            self._handlers[event.key](self, event.first, event.second)
        except PeerError:
            self._actions.clear()
            raise
        except KeyError as error:
            self._actions.clear()
            if event.key in self._handlers:
                raise
            raise self._nobody_handles(event) from error
        asked = self._actions
        if not asked:
            return NOTHING
        if self._parts:  # parts hold on to the same list
            asked = asked[:]
            self._actions.clear()
        else:
            self._actions = []
        return asked

    def _nobody_handles(self, event: Event) -> PeerError | ContractError:
        what = event.key.__name__ if isinstance(event.key, type) else str(event.key)
        problem = f"{type(self).__name__} has no handler for {what}"
        from_peer = isinstance(event.key, type) and issubclass(event.key, Packet)
        return PeerError(problem) if from_peer else ContractError(problem)

    # --- handlers that a protocol may write ---------------------------------------------------------------------------

    def started(self) -> None:
        """The node is up."""

    def submitted(self, message: Message) -> None:  # noqa: ARG002 (for subclasses)
        """The application wants `message` sent: accept or refuse it, now or in a later step."""
        raise ContractError(f"{type(self).__name__} takes no messages from applications")

    def submitted_together(self, messages: Sequence[Message]) -> None:
        """The application wants all of these sent, in order; for protocols that can save work with several."""
        for message in messages:
            self.submitted(message)

    def expired(self, timer: Any) -> None:
        """A timer of this name ran out."""

    def attached(self, station: NodeNumber) -> None:
        """In range of `station` (NOBODY: of the one shared medium)."""

    def detached(self) -> None:
        """Out of range."""

    def view_changed(self, view: View) -> None:
        """The membership below installed `view`."""

    def part_installed(self, key: Hashable, view: View) -> None:
        """The part under `key` installed `view`."""

    # --- asks ------------------------------------------------------------------------------------------------------

    def send(self, to: NodeNumber, packet: Packet) -> None:
        self._actions.append(Send(to, packet))

    def multicast(self, to: Sequence[NodeNumber], packet: Packet) -> None:
        self._actions.append(Multicast(tuple(to), packet))

    def broadcast(self, packet: Packet) -> None:
        self._actions.append(Broadcast(packet))

    def accept(self, message: Message, mid: Mid | None = None) -> Message:
        """Take responsibility for a submitted message; numbers it 1, 2, 3, ... unless the protocol gives `mid`."""
        if mid is None:
            self._accepted += 1
            mid = Mid(self.me, self._accepted, self.context.incarnation)
        numbered = msgspec.structs.replace(message, mid=mid)
        self._actions.append(Accept(numbered))
        return numbered

    def refuse(self, message: Message, reason: str) -> None:
        self._actions.append(Refuse(message, reason))

    def deliver(self, message: Message) -> None:
        self._actions.append(Deliver(message))

    def hold(self, message: Message, waiting_for: Sequence[Mid]) -> None:
        self._actions.append(Hold(message, tuple(waiting_for)))

    def set_timer(self, name: TimerName, delay: int, when_sent: bool = False) -> None:
        self._actions.append(SetTimer(self._outer_timer(name), delay, when_sent))

    def cancel_timer(self, name: TimerName) -> None:
        self._actions.append(CancelTimer(self._outer_timer(name)))

    def install(self, view: View) -> None:
        self._actions.append(Install(view))
        if self._owner is not None:
            owner, key = self._owner
            owner.part_installed(key, view)

    def persist(self, key: str, value: Any) -> None:
        self._actions.append(Persist(self.context.prefix + key, value))

    def join(self, group: Group) -> None:
        self._actions.append(Join(group))

    def leave(self, group: Group) -> None:
        self._actions.append(Leave(group))

    def tell(self, notice: Notice) -> None:
        self._actions.append(Tell(notice))

    def note(self, what: str, about: Mid | None = None, group: Group = 0) -> None:
        self._actions.append(Note(what, about, group))

    def gauge(self, what: str, value: int) -> None:
        """Say how much of `what` (messages in a buffer, say) is in use here from now on."""
        self._actions.append(Gauge(what, value))

    # --- composition -----------------------------------------------------------------------------------------------

    def part(self, key: Hashable, make: Callable[[Context, Any], M], options: Any = None, routed: bool = True) -> M:
        """Make a machine inside this one.

        `key` tells its timers and its persisted values from those of other parts. `routed` parts get the packets and
        commands that they have handlers for and this machine has not; an owner of several equal parts (one per group,
        say) passes False and hands packets on itself.
        """
        if key in self._parts:
            raise ContractError(f"{type(self).__name__} already has a part {key!r}")
        made = make(self.context.inner(str(key)), options)
        made._owner = (self, key)
        made.now = self.now
        made._share(self._actions)
        self._parts[key] = made
        if routed:
            self._routed.append(key)
            self._route()
        return made

    def drop_part(self, key: Hashable) -> None:
        """End the part: its packets are unknown and its timers mean nothing from now on."""
        self._parts.pop(key, None)
        if key in self._routed:
            self._routed.remove(key)
            self._route()

    def _route(self) -> None:
        """Give this machine a table of its own, with what only its routed parts handle."""
        table = dict(type(self)._handlers)
        for part in (self._parts[key] for key in self._routed):
            for handled, handler in part._handlers.items():
                if isinstance(handled, type):
                    table.setdefault(handled, _of_part(part, handler))
        self._handlers = table

    def _tell_time(self, now: int) -> None:
        for part in self._parts.values():
            part.now = now
            if part._parts:
                part._tell_time(now)

    def _share(self, collected: list[Action]) -> None:
        self._actions = collected
        for part in self._parts.values():
            part._share(collected)

    def _outer_timer(self, name: TimerName) -> TimerName:
        if self._owner is None:
            return name
        owner, key = self._owner
        return owner._outer_timer((key, name))

    def _expired(self, timer: TimerName) -> None:
        if isinstance(timer, tuple) and len(timer) == 2 and timer[0] in self._parts:
            self._parts[timer[0]]._expired(timer[1])
        else:
            self.expired(timer)
