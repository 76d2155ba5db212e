"""The one door of a protocol: events in, actions out.

A machine is one node's part in a protocol, one subclass per role. Handlers do the work and *ask* (send, deliver,
set_timer, ...); `step` collects what they asked for. Nothing else changes a machine, and a machine touches nothing
else: no socket, clock, thread, file or random source but those of its context.

Machines compose: `part` makes a machine that lives inside this one. A part's asks land in the same list of actions, its
timers, packets and commands find their way back to it, and its owner calls its methods directly.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec

from castbed.actions import (
    Accept,
    Action,
    Broadcast,
    CancelTimer,
    Deliver,
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
_NAMED = ("started", "submitted", "expired", "attached", "detached", "view_changed")
_WITHOUT_ARGUMENT = ("started", "detached")


def on(*types: type[Packet] | type[Command]) -> Callable[[H], H]:
    """Mark a method as the handler of these packet types (`packet, sender`) or commands (`command`)."""

    def mark(handler: H) -> H:
        handler.__castbed_on__ = types  # type: ignore[attr-defined]
        return handler

    return mark


def _given_nothing(handler: Handler) -> Handler:
    return lambda first, second: handler()


def _given_one(handler: Handler) -> Handler:
    return lambda first, second: handler(first)


class Machine:
    """One node's part in a protocol. Subclasses write handlers; hosts call `step` and carry out what it returns."""

    _handler_names: ClassVar[dict[Hashable, str]] = {name: name for name in _NAMED}

    now: int
    """The host's time in nanoseconds, during a step."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._handler_names = dict(cls._handler_names)
        for name, member in vars(cls).items():
            for handled in getattr(member, "__castbed_on__", ()):
                cls._handler_names[handled] = name

    def __init__(self, context: Context, options: Any = None) -> None:
        self.context = context
        self.options = options
        self.me = context.me
        self.now = 0
        self._actions: list[Action] = []
        self._accepted = 0
        self._owner: tuple[Machine, Hashable] | None = None
        self._parts: dict[Hashable, Machine] = {}
        self._handlers: dict[Hashable, Handler] = self._bound_handlers()

    def _bound_handlers(self) -> dict[Hashable, Handler]:
        """Each handler as `step` calls it: with what the event carries first and second."""
        bound = {key: getattr(self, name) for key, name in self._handler_names.items()}
        bound["expired"] = self._expired
        for key, handler in bound.items():
            if not isinstance(key, type):
                bound[key] = _given_nothing(handler) if key in _WITHOUT_ARGUMENT else _given_one(handler)
            elif issubclass(key, Command):
                bound[key] = _given_one(handler)
        return bound

    # --- the door --------------------------------------------------------------------------------------------------

    def step(self, event: Event, now: int) -> Sequence[Action]:
        """Let one event happen; returns what the host must do, in order."""
        self.now = now
        if self._parts:
            self._tell_time(now)
        try:
            self._handlers[event.key](event.first, event.second)
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

    def set_timer(self, name: TimerName, delay: int) -> None:
        self._actions.append(SetTimer(self._outer_timer(name), delay))

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
            for handled, handler in made._handlers.items():
                if isinstance(handled, type):
                    self._handlers.setdefault(handled, handler)
        return made

    def drop_part(self, key: Hashable) -> None:
        """End the part: its packets are unknown and its timers mean nothing from now on."""
        gone = self._parts.pop(key, None)
        if gone is not None:
            for handled, handler in gone._handlers.items():
                if isinstance(handled, type) and self._handlers.get(handled) == handler:
                    del self._handlers[handled]

    def _tell_time(self, now: int) -> None:
        for part in self._parts.values():
            part.now = now
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
