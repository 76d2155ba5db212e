"""What the repaired variant adds: restarts, identities, idempotent calls, service after leaving, limits, validation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from m2mc_bench import SECOND, all_broken, create, join, last_view, m2mc_bench, members

from castbed import ConfigurationError, ContractError, Message, Mid, PeerError, Received
from castbed import topology as shapes
from castbed.assembly import choose
from castbed.events import Asked
from castbed.history import Kind
from castbed.parts import AntiEntropyOptions, Repair
from castbed.testing import Bench
from castbed.units import convert
from castbed.values import created_group
from castbed_plugins import m2mc, sb
from castbed_plugins.m2mc import roster
from castbed_plugins.m2mc.packets import Data, Roster, Standing

G = "1.A"


def restart(bench: Bench, node: str, keep_storage: bool) -> None:
    bench.crash(node, keep_storage)
    bench.start(node)


# --- restarts (M2-R8, R9, R21) ---------------------------------------------------------------------------------------


def test_a_restarted_member_is_one_at_once_and_delivers_nothing_again() -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    bench.submit("A", b"one", group)
    bench.settle()
    restart(bench, "B", keep_storage=True)
    assert bench.submit("B", b"two", group, "A1") == Mid(2, 1, 1)
    bench.run(5 * SECOND)
    assert bench.delivered("B") == ["A1", "B1~1"]
    assert bench.delivered("A") == ["A1", "B1~1"]
    assert all_broken(bench) == {}


def test_a_restarted_member_tells_its_application_what_it_knew_in_an_order_that_fits() -> None:
    bench = m2mc_bench("ABC", "repaired")
    group = members(bench, G, "A", "B", "C")
    bench.submit("A", b"question", group)
    bench.lose(lambda copy: copy.to == "C")
    bench.settle()
    bench.submit("B", b"answer", group, "A1")
    bench.run(5 * SECOND)
    assert [bench.text(message.mid) for message in bench.machines["C"].instances[group].log.log] == ["B1", "A1"]
    restart(bench, "C", keep_storage=True)
    resumed = bench.notices["C"][-1]
    assert isinstance(resumed, m2mc.GroupResumed)
    assert [message.payload for message in resumed.messages] == [b"question", b"answer"]
    assert resumed.complete


def test_what_was_held_before_a_restart_is_held_after_it() -> None:
    bench = m2mc_bench("ABC", "repaired")
    group = members(bench, G, "A", "B", "C")
    bench.submit("A", b"", group)
    bench.lose(lambda copy: copy.to == "C")
    bench.settle()
    bench.submit("B", b"", group, "A1")
    bench.settle()
    restart(bench, "C", keep_storage=True)
    assert bench.delivered("C") == []
    assert bench.events[-1].kind == Kind.HOLD
    bench.run(5 * SECOND)
    assert bench.delivered("C") == ["A1", "B1"]
    assert all_broken(bench) == {}


def test_what_was_accepted_before_a_crash_is_not_lost() -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    bench.lose()
    restart(bench, "A", keep_storage=True)
    bench.run(5 * SECOND)
    assert bench.delivered("B") == ["A1"]


def test_a_member_whose_storage_was_lost_is_none_and_the_others_learn_it() -> None:
    bench = m2mc_bench("ABC", "repaired")
    group = members(bench, G, "A", "B", "C")
    restart(bench, "B", keep_storage=False)
    bench.run(5 * SECOND)
    assert bench.submit("B", b"", group) is None
    assert last_view(bench, "A") == last_view(bench, "C") == "AC"


def test_a_member_whose_storage_was_lost_joins_again_as_somebody_new() -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    bench.submit("B", b"old", group)
    bench.settle()
    restart(bench, "B", keep_storage=False)
    bench.run(5 * SECOND)
    join(bench, G, "B")
    assert bench.submit("B", b"new", group) == Mid(2, 1, 1)
    bench.run(5 * SECOND)
    assert last_view(bench, "A") == last_view(bench, "B") == "AB"
    assert sorted(bench.delivered("B")) == ["B1", "B1", "B1~1"]
    assert all_broken(bench) == {}


def test_no_life_gives_a_group_the_identity_of_an_older_one() -> None:
    bench = m2mc_bench("A", "repaired")
    groups = [create(bench, "A")]
    for keep_storage in (True, False):
        restart(bench, "A", keep_storage)
        groups.append(create(bench, "A"))
    assert len(set(groups)) == 3


def test_a_restart_after_eviction_still_knows_what_may_be_answered() -> None:
    options = m2mc.M2mcOptions(held_max=4, repair=AntiEntropyOptions(log_max=8))
    bench = Bench(m2mc.PROTOCOL, shapes.broadcast(("A", "B"), groups={}), options=options)
    group = members(bench, G, "A", "B")
    for _ in range(20):
        bench.submit("A", b"", group)
    bench.settle()
    restart(bench, "B", keep_storage=True)
    assert not bench.notices["B"][-1].complete
    bench.submit("A", b"", group, "A1")
    bench.settle()
    assert bench.delivered("B")[-1] == "A21"


# --- leaving (M2-R1, R5, R8) -----------------------------------------------------------------------------------------


def test_a_process_that_left_still_serves_the_messages_that_it_has() -> None:
    bench = m2mc_bench("ABC", "repaired")
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    bench.lose()
    bench.ask("A", m2mc.LeaveGroup(G))
    bench.run(5 * SECOND)
    assert bench.delivered("B") == ["A1"]
    assert last_view(bench, "B") == "B"


def test_a_process_that_left_takes_in_nothing_and_sends_nothing_unasked() -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    bench.ask("B", m2mc.LeaveGroup(G))
    bench.submit("A", b"", group)
    bench.settle()
    bench.expire("A", (f"log {group}", "digest"))
    bench.settle()
    sent: list[str] = []
    for node, timer in [key for key in bench.timers if key[0] == "B" and key[1][0] == f"log {group}"]:
        bench.expire(node, timer)
        sent += [type(copy.packet).__name__ for copy in bench.copies(sender="B")]
    assert (bench.delivered("B"), sent) == ([], [])
    assert bench.machines["B"].instances[group].log.log == []


def test_leaving_and_joining_again_delivers_nothing_twice_and_misses_nothing() -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    bench.settle()
    bench.ask("B", m2mc.LeaveGroup(G))
    bench.submit("A", b"", group)
    bench.settle()
    join(bench, G, "B")
    assert [len(n.messages) for n in bench.notices["B"] if isinstance(n, m2mc.GroupResumed)] == [1]
    bench.run(5 * SECOND)
    assert bench.delivered("B") == ["A1", "A2"]


def test_a_member_with_no_room_for_another_hold_asks_again_when_there_is() -> None:
    """SB-R7, with room for two."""
    options = m2mc.M2mcOptions(held_max=2)
    bench = Bench(m2mc.PROTOCOL, shapes.broadcast(("A", "B"), groups={}), options=options)
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    late = bench.copies(Data)
    bench.lose()
    for _ in range(4):
        bench.submit("A", b"", group, "A1")
    bench.arrive_all()
    assert [event.text for event in bench.events if event.kind == Kind.NOTE] == ["no-room", "no-room"]
    bench.in_flight += late
    bench.run(5 * SECOND)
    assert sorted(bench.delivered("B")) == ["A1", "A2", "A3", "A4", "A5"]
    assert all_broken(bench) == {}


# --- calls that change nothing (M2-R13) ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "command"),
    [
        ("A", m2mc.JoinGroup(G)),
        ("A", m2mc.RejectGroup(G)),
        ("B", m2mc.LeaveGroup(G)),
        ("B", m2mc.RejectGroup(G)),
        ("B", m2mc.Synchronize(G)),
        ("B", m2mc.LeaveGroup("7.A")),
    ],
)
def test_a_call_at_the_wrong_time_does_nothing(node: str, command: object) -> None:
    bench = m2mc_bench("AB", "repaired")
    create(bench, "A")
    bench.settle()
    assert bench.ask(node, command) == ()


def test_a_group_can_be_joined_by_its_identity_before_anybody_offered_it() -> None:
    bench = m2mc_bench("AB", "repaired")
    create(bench, "A", "chess")
    bench.lose()
    join(bench, G, "B")
    bench.run(5 * SECOND)
    assert last_view(bench, "A") == last_view(bench, "B") == "AB"
    assert [roll.desc for roll in bench.machines["B"].gjlp.rolls.values()] == ["chess"]


@pytest.mark.parametrize("text", ["1.nobody", "chess", "x.A", ""])
def test_a_text_that_names_no_group_is_our_mistake(text: str) -> None:
    bench = m2mc_bench("A", "repaired")
    with pytest.raises(ContractError, match="no group"):
        bench.ask("A", m2mc.JoinGroup(text))


# --- rosters (M2-R11) ------------------------------------------------------------------------------------------------

STANDINGS = st.builds(Standing, st.integers(2, 4), st.integers(1, 3), st.booleans())


@given(st.lists(STANDINGS, max_size=8), st.randoms(use_true_random=False))
def test_rosters_merge_to_the_same_in_any_order_and_however_often(heard: list[Standing], chance) -> None:
    again = heard + heard[: len(heard) // 2]
    chance.shuffle(again)
    assert _merged(heard) == _merged(again)


def _merged(heard: list[Standing]) -> dict[int, Standing]:
    roll = roster.Roll(1)
    for standing in heard:
        roll.learn(standing)
    return dict(sorted(roll.standings.items()))


def test_lost_joins_and_leaves_are_said_again() -> None:
    bench = m2mc_bench("ABC", "repaired")
    create(bench, "A")
    bench.settle()
    join(bench, G, "B", "C")
    bench.lose()
    bench.run(5 * SECOND)
    assert last_view(bench, "A") == last_view(bench, "B") == last_view(bench, "C") == "ABC"
    bench.ask("B", m2mc.LeaveGroup(G))
    bench.lose()
    bench.run(5 * SECOND)
    assert last_view(bench, "A") == last_view(bench, "C") == "AC"


def test_a_member_contradicts_what_is_said_of_it_wrongly() -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    bench.step("A", Received(Roster(group, "chat", (Standing(2, 40, departed=True),)), 2))
    assert last_view(bench, "A") == "A"
    bench.run(5 * SECOND)
    assert last_view(bench, "A") == "AB"


def test_a_long_roster_goes_in_pieces() -> None:
    roll = roster.Roll(1, "crowd")
    for pid in range(1, 131):
        roll.learn(Standing(pid, 1, departed=False))
    pieces = roll.pieces()
    assert [len(piece.standings) for piece in pieces] == [64, 64, 2]
    assert {standing.pid for piece in pieces for standing in piece.standings} == set(range(1, 131))


def test_there_is_a_limit_to_the_groups_and_members_that_a_process_hears_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "GROUPS_MAX", 1)
    monkeypatch.setattr(roster, "MEMBERS_MAX", 2)
    bench = m2mc_bench("ABCD", "repaired")
    for group in (5, 6):
        bench.step("A", Received(Roster(group, "", tuple(Standing(pid, 1, False) for pid in (2, 3, 4))), 2))
    rolls = bench.machines["A"].gjlp.rolls
    assert {group: list(roll.standings) for group, roll in rolls.items()} == {5: [2, 3]}
    assert [event.text for event in bench.events if event.kind == Kind.NOTE] == ["roster-dropped"]


# --- validation (M2-R24) ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "packet",
    [
        Roster(0, "", ()),
        Roster(9, "x" * 129, ()),
        Roster(9, "", tuple(Standing(pid, 1, False) for pid in range(1, 66))),
        Roster(9, "", (Standing(3, 1, False), Standing(0, 1, False))),
        Roster(9, "", (Standing(3, 1, False), Standing(2, 0, False))),
        Roster(9, "", (Standing(3, 1, False), Standing(2, 1 << 49, False))),
        Roster(9, "", (Standing(3, 1, False), Standing(4, 1, False))),
        Roster(created_group(1, 4), "", (Standing(3, 1, False),)),
    ],
)
def test_a_roster_that_makes_no_sense_changes_nothing(packet: Roster) -> None:
    bench = m2mc_bench("ABC", "repaired")
    machine = bench.machines["A"]
    with pytest.raises(PeerError):
        machine.step(Received(packet, 2), 0)
    assert machine.gjlp.rolls == {}


@pytest.mark.parametrize(("mid", "parent"), [((2, 0), None), ((0, 1), None), ((2, 1), (2, 1)), ((2, 1), (2, 0))])
def test_data_that_makes_no_sense_changes_nothing(mid: tuple[int, int], parent: tuple[int, int] | None) -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    packet = Data(group, Mid(*mid), b"", None if parent is None else Mid(*parent))
    bench.step("A", Received(packet, 2))
    assert bench.events[-1].kind == Kind.DROP
    assert bench.machines["A"].instances[group].log.log == []


def test_nobody_else_writes_in_my_name_and_nobody_writes_without_end() -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    forged = Message(Mid(1, 7), group, b"")
    huge = Message(Mid(2, 7), group, bytes(65_537))
    for message in (forged, huge):
        for packet in (Data(group, message.mid, message.payload, None), Repair(group, (message,))):
            bench.step("A", Received(packet, 2))
            assert bench.events[-1].kind == Kind.DROP
    assert bench.delivered("A") == []
    assert bench.submit("A", bytes(65_537), group) is None


def test_a_description_that_nobody_would_accept_is_refused_at_the_source() -> None:
    bench = m2mc_bench("A", "repaired")
    with pytest.raises(ContractError, match="128 characters"):
        bench.machines["A"].step(Asked(m2mc.CreateGroup("x" * 129)), 0)


def test_options_are_checked() -> None:
    plain = {"roster": {"announce_every": "2s"}, "repair": {"digest_interval": "500ms"}}
    assert convert(plain, m2mc.M2mcOptions).roster.announce_every == 2 * SECOND
    too_small = {"roster": {"announce_every": "0s"}}, {"roster": {"answer_within": "0s"}}, {"held_max": 0}
    for wrong in (*too_small, {"held_max": 16384}, {"nonsense": 1}):
        with pytest.raises(ConfigurationError):
            convert(wrong, m2mc.M2mcOptions)


# --- GJLP under another protocol -------------------------------------------------------------------------------------


@pytest.mark.parametrize("membership", m2mc.MEMBERSHIPS, ids=lambda membership: membership.name)
def test_gjlp_is_a_membership_of_its_own(membership) -> None:
    variant = "published" if "own_copy" in membership.needs else "repaired"
    bench = Bench(sb.PROTOCOL, shapes.broadcast(tuple("ABC"), groups={}), variant, membership=membership)
    create(bench, "A")
    bench.settle()
    join(bench, G, "B", "C")
    bench.run(3 * SECOND)
    bench.ask("C", m2mc.LeaveGroup(G))
    bench.settle()
    assert last_view(bench, "A") == last_view(bench, "B") == "AB"
    assert [event.kind for event in bench.events if event.node == 3 and event.kind in (Kind.JOIN, Kind.LEAVE)] == [
        Kind.JOIN,
        Kind.LEAVE,
    ]


def test_the_protocol_brings_its_membership_along() -> None:
    chosen = choose(m2mc.PROTOCOL, membership=m2mc.MEMBERSHIPS[0])
    assert not chosen.stacked
    assert set(m2mc.MEMBERSHIPS[0].commands) <= set(chosen.commands)


def test_a_message_carries_its_text_unchanged() -> None:
    bench = m2mc_bench("AB", "repaired")
    group = members(bench, G, "A", "B")
    bench.submit("A", "Ünïcode".encode(), group)
    bench.settle()
    assert bench.messages["B"] == [Message(Mid(1, 1), group, "Ünïcode".encode())]
