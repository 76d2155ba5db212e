"""The contract of machines: one door in, one list of actions out, parts inside."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from castbed import (
    Asked,
    Attached,
    Command,
    Context,
    ContractError,
    Detached,
    Expired,
    Machine,
    Message,
    Mid,
    NodeNumber,
    Notice,
    Packet,
    PeerError,
    Received,
    Started,
    Submitted,
    SubmittedTogether,
    View,
    ViewChanged,
    on,
)
from castbed import actions as do
from castbed.packets import command_name, kind_of
from castbed.topology import broadcast

TOPOLOGY = broadcast(("A", "B", "C"))


class Ping(Packet, frozen=True, tag=1):
    text: str


class Pong(Packet, frozen=True, tag=2):
    pass


class GiveUp(Command, frozen=True):
    pass


def context(stored: dict[str, Any] | None = None, incarnation: int = 0) -> Context:
    return Context(1, TOPOLOGY, Random(0), incarnation, stored)


class Recorder(Machine):
    """Notes every event that reaches it."""

    def started(self) -> None:
        self.note("started")

    def submitted(self, message: Message) -> None:
        self.accept(message)

    @on(Ping)
    def ping(self, packet: Ping, sender: NodeNumber) -> None:
        self.note(f"{packet.text} from {sender} at {self.now}")
        if packet.text == "bad":
            raise PeerError("bad ping")
        if packet.text == "bug":
            raise KeyError("our own")

    @on(GiveUp)
    def give_up(self, _command: GiveUp) -> None:
        self.note("gave up")

    def expired(self, timer: Any) -> None:
        self.note(f"expired {timer}")

    def attached(self, station: NodeNumber) -> None:
        self.note(f"attached {station}")

    def detached(self) -> None:
        self.note("detached")

    def view_changed(self, view: View) -> None:
        self.note(f"view {view.number}")


def test_each_event_reaches_its_handler_and_only_that() -> None:
    machine = Recorder(context())
    events = {
        "started": Started(),
        "hi from 2 at 7": Received(Ping("hi"), 2),
        "gave up": Asked(GiveUp()),
        "expired soon": Expired("soon"),
        "attached 3": Attached(3),
        "detached": Detached(),
        "view 4": ViewChanged(View(1, 4, (1,))),
    }
    for expected, event in events.items():
        assert machine.step(event, 7) == [do.Note(expected)]


def test_messages_that_are_submitted_together_are_submitted_one_after_the_other() -> None:
    messages = [Message(payload=b"one"), Message(payload=b"two")]
    accepted = Recorder(context()).step(SubmittedTogether(messages), 7)
    assert [(action.message.mid, action.message.payload) for action in accepted] == [
        (Mid(1, 1), b"one"),
        (Mid(1, 2), b"two"),
    ]


def test_a_machine_may_take_messages_that_are_submitted_together_at_once() -> None:
    class Bundler(Recorder):
        def submitted_together(self, messages: Sequence[Message]) -> None:
            self.note(b" ".join(message.payload for message in messages).decode())

    messages = [Message(payload=b"one"), Message(payload=b"two")]
    assert Bundler(context()).step(SubmittedTogether(messages), 7) == [do.Note("one two")]


def test_a_step_returns_all_that_was_asked_in_order_and_nothing_of_earlier_steps() -> None:
    class Busy(Machine):
        def started(self) -> None:
            self.send(2, Pong())
            self.multicast([2, 3], Pong())
            self.broadcast(Pong())
            self.set_timer("t", 5)
            self.cancel_timer("t")
            self.persist("k", 1)
            self.join(1)
            self.leave(1)
            self.tell(Notice())
            self.deliver(Message(Mid(1, 1)))
            self.hold(Message(Mid(1, 2)), [Mid(1, 1)])
            self.install(View(1, 1, (1,)))
            self.refuse(Message(), "no")

    machine = Busy(context())
    expected = [
        do.Send(2, Pong()),
        do.Multicast((2, 3), Pong()),
        do.Broadcast(Pong()),
        do.SetTimer("t", 5),
        do.CancelTimer("t"),
        do.Persist("k", 1),
        do.Join(1),
        do.Leave(1),
        do.Tell(Notice()),
        do.Deliver(Message(Mid(1, 1))),
        do.Hold(Message(Mid(1, 2)), (Mid(1, 1),)),
        do.Install(View(1, 1, (1,))),
        do.Refuse(Message(), "no"),
    ]
    assert machine.step(Started(), 0) == expected
    assert machine.step(Started(), 0) == expected
    assert list(machine.step(Detached(), 0)) == []


def test_a_peer_error_leaves_no_actions_behind() -> None:
    machine = Recorder(context())
    with pytest.raises(PeerError, match="bad ping"):
        machine.step(Received(Ping("bad"), 2), 0)
    assert machine.step(Detached(), 0) == [do.Note("detached")]


def test_a_packet_that_nobody_handles_is_the_peers_fault() -> None:
    with pytest.raises(PeerError, match="Recorder has no handler for Pong"):
        Recorder(context()).step(Received(Pong(), 2), 0)


def test_a_command_that_nobody_handles_is_our_fault() -> None:
    class Unknown(Command, frozen=True):
        pass

    with pytest.raises(ContractError, match="Recorder has no handler for Unknown"):
        Recorder(context()).step(Asked(Unknown()), 0)


def test_a_key_error_inside_a_handler_is_not_mistaken_for_a_missing_handler() -> None:
    machine = Recorder(context())
    with pytest.raises(KeyError, match="our own"):
        machine.step(Received(Ping("bug"), 2), 0)
    assert machine.step(Detached(), 0) == [do.Note("detached")]


def test_a_machine_that_takes_no_messages_says_so() -> None:
    with pytest.raises(ContractError, match="takes no messages"):
        Machine(context()).step(Submitted(Message()), 0)


def test_accepted_messages_are_numbered_within_the_life_of_the_node() -> None:
    machine = Recorder(context(incarnation=3))
    mids = [machine.step(Submitted(Message()), 0)[0].message.mid for _ in range(3)]  # type: ignore[attr-defined]
    assert mids == [Mid(1, 1, 3), Mid(1, 2, 3), Mid(1, 3, 3)]


def test_a_subclass_inherits_handlers_and_may_replace_them() -> None:
    class Louder(Recorder):
        @on(Ping)
        def louder(self, packet: Ping, _sender: NodeNumber) -> None:
            self.note(packet.text.upper())

    assert Louder(context()).step(Received(Ping("hi"), 2), 0) == [do.Note("HI")]
    assert Louder(context()).step(Asked(GiveUp()), 0) == [do.Note("gave up")]
    assert Recorder(context()).step(Received(Ping("hi"), 2), 0) == [do.Note("hi from 2 at 0")]


# --- parts -----------------------------------------------------------------------------------------------------------


class Alarm(Machine):
    """A part with a timer, a packet, a value to keep and a view."""

    def arm(self) -> None:
        self.set_timer("bell", 10)
        self.persist("armed", self.now)

    @on(Pong)
    def pong(self, _packet: Pong, sender: NodeNumber) -> None:
        self.note(f"pong from {sender} at {self.now}")

    def expired(self, timer: Any) -> None:
        self.note(f"{timer} at {self.now}")
        self.install(View(1, self.now, (1,)))


class House(Machine):
    def __init__(self, context: Context, options: Any = None) -> None:
        super().__init__(context, options)
        self.front = self.part("front", Alarm)
        self.back = self.part("back", Alarm, routed=False)

    def started(self) -> None:
        self.back.arm()
        self.note("armed")

    def expired(self, timer: Any) -> None:
        self.note(f"house {timer}")

    def part_installed(self, key: Any, view: View) -> None:
        self.note(f"{key} installed {view.number}")


class Street(Machine):
    def __init__(self, context: Context, options: Any = None) -> None:
        super().__init__(context, options)
        self.house = self.part("house", House)

    def started(self) -> None:
        self.house.started()


def test_what_a_part_asks_comes_out_of_the_same_step_in_order_with_names_of_its_own() -> None:
    assert House(context()).step(Started(), 5) == [
        do.SetTimer(("back", "bell"), 10),
        do.Persist("back/armed", 5),
        do.Note("armed"),
    ]


def test_a_timer_of_a_part_runs_out_in_that_part_and_views_reach_the_owner() -> None:
    house = House(context())
    assert house.step(Expired(("back", "bell")), 8) == [
        do.Note("bell at 8"),
        do.Install(View(1, 8, (1,))),
        do.Note("back installed 8"),
    ]
    assert house.step(Expired("bell"), 9) == [do.Note("house bell")]


def test_parts_of_parts_share_time_actions_timers_and_storage() -> None:
    street = Street(context())
    assert street.step(Started(), 3)[:2] == [
        do.SetTimer(("house", ("back", "bell")), 10),
        do.Persist("house/back/armed", 3),
    ]
    assert street.step(Expired(("house", ("back", "bell"))), 4)[0] == do.Note("bell at 4")
    assert street.step(Received(Pong(), 2), 5) == [do.Note("pong from 2 at 5")]


def test_a_routed_part_gets_the_packets_that_its_owner_does_not_handle() -> None:
    assert House(context()).step(Received(Pong(), 2), 1) == [do.Note("pong from 2 at 1")]

    class Deaf(Machine):
        def __init__(self, context: Context) -> None:
            super().__init__(context)
            self.part("alarm", Alarm, routed=False)

    with pytest.raises(PeerError, match="no handler for Pong"):
        Deaf(context()).step(Received(Pong(), 2), 0)


def test_a_dropped_part_hears_nothing_any_more() -> None:
    house = House(context())
    house.drop_part("front")
    house.drop_part("back")
    with pytest.raises(PeerError, match="no handler for Pong"):
        house.step(Received(Pong(), 2), 0)
    assert house.step(Expired(("back", "bell")), 0) == [do.Note("house ('back', 'bell')")]


def test_two_parts_cannot_share_a_key() -> None:
    with pytest.raises(ContractError, match="already has a part 'front'"):
        House(context()).part("front", Alarm)


def test_a_part_finds_what_its_earlier_life_kept() -> None:
    house = House(context({"back/armed": 5, "back/m/2": "b", "back/m/1": "a", "armed": 9}))
    assert house.back.context.kept("armed") == 5
    assert house.back.context.kept_keys("m/") == ["m/1", "m/2"]
    assert house.front.context.kept("armed", "never") == "never"
    assert house.context.kept("armed") == 9


# --- what travels ----------------------------------------------------------------------------------------------------


def test_a_packet_type_needs_a_kind() -> None:
    class Untagged(Packet, frozen=True):
        pass

    assert kind_of(Pong) == 2
    with pytest.raises(TypeError, match="Untagged needs a kind"):
        kind_of(Untagged)


def test_commands_are_written_in_kebab_case() -> None:
    assert command_name(GiveUp) == "give-up"


def test_events_show_what_they_carry() -> None:
    assert repr(Received(Pong(), 2)) == "Received(Pong(), 2)"
