"""A host's side of the cellular channel: each row of table 5.4 of the EOMP specification, and what it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from cell_radio import PROTOCOL, RadioHost

from castbed import ContractError, Kind, PeerError, Received, topology
from castbed.packets import Packet
from castbed.parts import CellOptions, CellRx, GsmTiming
from castbed.parts.cell_channel import (
    CHANNEL_LEFT,
    GROUPS_MAX,
    NO_ASSIGNMENT,
    RX_TRANSITIONS,
    Assign,
    Frame,
    Page,
    Release,
    RxEvent,
    RxState,
)
from castbed.parts.cell_channel.timing import HYPERFRAME
from castbed.testing import Bench

GSM = GsmTiming()
GUARD = CellOptions().guard
STATION, NEIGHBOUR = 1, 2
G, OTHER, FOREIGN = 1, 2, 3
DUE = ("cell", "due")
PAGE = Page(G, 12)
ASSIGN = Assign(G, 57, 0, 3, 65)
FULL = bytes(range(20))


def frame(number: int = 0, index: int = 0, last: bool = True, payload: bytes = FULL, **changes: Any) -> Frame:
    """The `number`-th frame of the burst that ASSIGN announces."""
    block = 65
    for _ in range(number):
        block = GSM.traffic_after(block)
    return msgspec.structs.replace(Frame(G, payload, block, 0, 3, number, index, last), **changes)


def release(after: int, **changes: Any) -> Release:
    """In place of the frame of this counter."""
    return msgspec.structs.replace(Release(frame(after).frame, 0, 3), **changes)


class Host:
    """A host in the cell of S, subscribed to G and OTHER, that hears what the test lets it hear."""

    def __init__(self) -> None:
        groups = {G: (3,), OTHER: (3,), FOREIGN: (4,)}
        self.bench = Bench(PROTOCOL, topology.cellular(("S", "N"), {"x": "S", "y": "S"}, groups))
        machine = self.bench.machines["x"]
        assert isinstance(machine, RadioHost)
        self.machine, self.cell = machine, machine.cell

    def hear(self, *packets: Packet, sender: int = STATION) -> Host:
        """Each at the end of its block."""
        for packet in packets:
            timeslot = packet.timeslot if isinstance(packet, Frame | Release) else 0
            self.bench.now = GSM.block_end(packet.frame, timeslot)  # type: ignore[attr-defined]
            self.bench.step("x", Received(packet, sender))
        return self

    def miss(self) -> None:
        """What is due does not come."""
        self.bench.expire("x", DUE)

    @property
    def state(self) -> RxState:
        return self.cell.state

    @property
    def due(self) -> int:
        return self.bench.timers["x", DUE]

    @property
    def payloads(self) -> list[bytes]:
        """All that came, in full: the test protocol takes the first 4 bytes for a number."""
        return [payload for _, payload in self.machine.got]

    @property
    def noted(self) -> list[str]:
        return [event.text for event in self.bench.history().of(Kind.NOTE)]

    def is_back(self) -> bool:
        """On the PCH, with no timer and nothing kept."""
        return self.state is RxState.IDLE and not self.bench.timers and not self.cell._fragments


# --- table 5.4 -------------------------------------------------------------------------------------------------------


def test_5_4_idle_page_listens_to_the_next_agch() -> None:
    host = Host().hear(PAGE)
    assert host.state is RxState.PAGED
    assert host.due == GSM.block_end(57) + GUARD


def test_5_4_idle_a_page_of_a_group_that_is_not_subscribed_is_not_for_us() -> None:
    assert Host().hear(Page(FOREIGN, 12)).is_back()


def test_5_4_paged_assign_tunes_to_the_channel() -> None:
    host = Host().hear(PAGE, ASSIGN)
    assert host.state is RxState.ASSIGNED
    assert host.due == GSM.block_end(65, 3) + GUARD


def test_5_4_paged_that_agch_missed_misses_the_burst() -> None:
    host = Host().hear(PAGE)
    host.miss()
    assert host.is_back()
    assert host.noted == [NO_ASSIGNMENT]
    host.hear(frame())
    assert host.payloads == []


@pytest.mark.parametrize("group", [OTHER, FOREIGN])
def test_5_4_paged_that_agch_not_for_g_misses_the_burst(group: int) -> None:
    host = Host().hear(PAGE, msgspec.structs.replace(ASSIGN, group=group))
    assert host.state is RxState.PAGED  # the block may name another group besides
    host.miss()
    assert host.is_back()


def test_5_4_paged_a_later_agch_is_too_late() -> None:
    host = Host().hear(PAGE, Assign(G, 108, 0, 3, 117))
    assert host.state is RxState.PAGED


def test_5_4_assigned_first_frame_receives() -> None:
    host = Host().hear(PAGE, ASSIGN, frame(last=False))
    assert host.state is RxState.RECEIVING
    assert host.due == GSM.block_end(69, 3) + GUARD
    assert host.payloads == []


def test_5_4_receiving_frames_in_sequence_make_a_message() -> None:
    host = Host().hear(PAGE, ASSIGN, frame(0, 0, False), frame(1, 1, False), frame(2, 2, True, b"end"))
    assert host.payloads == [(FULL + FULL + b"end")[4:]]
    assert host.state is RxState.RECEIVING


def test_5_4_receiving_more_messages_come_in_one_burst_fill_frames_between() -> None:
    fill = frame(1, 0, False, b"")
    host = Host().hear(PAGE, ASSIGN, frame(0), fill, frame(2, 0, False), frame(3, 1, True))
    assert host.payloads == [FULL[4:], (FULL + FULL)[4:]]


@pytest.mark.parametrize("heard", [0, 1, 2])
def test_5_4_an_expected_frame_missing_leaves_the_channel(heard: int) -> None:
    """The disconnect rule, in ASSIGNED and in RECEIVING."""
    host = Host().hear(PAGE, ASSIGN, *(frame(n, n, False) for n in range(heard)))
    assert host.due == GSM.block_end(frame(heard).frame, 3) + GUARD
    host.miss()
    assert host.is_back()
    assert host.noted == [CHANNEL_LEFT]
    host.hear(*(frame(n, n, n == 4) for n in range(heard + 1, 5)))
    assert host.payloads == []


@pytest.mark.parametrize(
    "next_heard",
    [
        pytest.param(frame(2, 2, False), id="a gap in the counter and the time"),
        pytest.param(frame(1, 1, False, counter=2), id="a gap in the counter alone"),
        pytest.param(frame(2, 2, False, counter=1), id="a gap in the time alone"),
        pytest.param(frame(1, 2, False), id="a gap in the fragments"),
        pytest.param(frame(1, 0, False), id="a message begun anew"),
        pytest.param(frame(1, 0, False, b""), id="a fill frame within a message"),
        pytest.param(frame(1, 1, True, group=OTHER), id="the channel is another group's"),
        pytest.param(release(2), id="a release later than due"),
    ],
)
def test_5_4_receiving_a_gap_leaves_the_channel(next_heard: Packet) -> None:
    host = Host().hear(PAGE, ASSIGN, frame(0, 0, False), next_heard)
    assert host.is_back()
    assert host.noted == [CHANNEL_LEFT]
    assert host.payloads == []


def test_5_4_a_first_frame_other_than_the_first_leaves_the_channel() -> None:
    assert Host().hear(PAGE, ASSIGN, frame(1)).noted == [CHANNEL_LEFT]


def test_5_4_a_bad_crc_is_a_missing_frame() -> None:
    """What the medium cannot read it does not hand over, or the machine blames it: both leave the frame due."""
    host = Host().hear(PAGE, ASSIGN, frame(payload=FULL + b"?"))
    assert host.state is RxState.ASSIGNED
    host.miss()
    assert host.is_back()


def test_5_4_receiving_release_goes_back_to_idle() -> None:
    host = Host().hear(PAGE, ASSIGN, frame(0), release(1))
    assert host.is_back()
    assert host.noted == []
    assert host.payloads == [FULL[4:]]


def test_5_4_release_passes_through_released() -> None:
    assert RX_TRANSITIONS[RxState.RECEIVING, RxEvent.RELEASE] is RxState.RELEASED
    assert RX_TRANSITIONS[RxState.RELEASED, RxEvent.PHYSICAL_RELEASE] is RxState.IDLE


def test_5_4_a_release_within_a_message_drops_it() -> None:
    host = Host().hear(PAGE, ASSIGN, frame(0, 0, False), release(1))
    assert host.is_back()
    assert host.payloads == []


def test_5_4_a_release_instead_of_the_first_frame_is_a_missing_frame() -> None:
    host = Host().hear(PAGE, ASSIGN, release(0))
    assert host.is_back()
    assert host.noted == [CHANNEL_LEFT]


@pytest.mark.parametrize(
    "heard",
    [(), (PAGE,), (PAGE, ASSIGN), (PAGE, ASSIGN, frame(0, 0, False))],
    ids=["idle", "paged", "assigned", "receiving"],
)
def test_5_4_any_state_leaving_the_cell_drops_everything(heard: tuple[Packet, ...]) -> None:
    host = Host().hear(*heard)
    host.bench.move("x", "N")
    assert host.is_back()
    host.hear(frame(1, 1))
    assert host.payloads == []


def test_5_4_the_table_is_the_specification_s() -> None:
    rows = {(s.value, e.name, after.value) for (s, e), after in RX_TRANSITIONS.items() if e is not RxEvent.LEFT}
    assert rows == {
        ("idle", "PAGE", "paged"),
        ("paged", "PAGE", "paged"),
        ("paged", "ASSIGN", "assigned"),
        ("paged", "MISSING", "idle"),
        ("assigned", "FRAME", "receiving"),
        ("assigned", "MISSING", "idle"),
        ("receiving", "FRAME", "receiving"),
        ("receiving", "MISSING", "idle"),
        ("receiving", "RELEASE", "released"),
        ("released", "PHYSICAL_RELEASE", "idle"),
    }
    assert all(RX_TRANSITIONS[state, RxEvent.LEFT] is RxState.IDLE for state in RxState)


# --- one receiver ----------------------------------------------------------------------------------------------------


def test_pages_of_two_groups_before_one_agch_leave_the_choice_to_the_assignment() -> None:
    host = Host().hear(PAGE, Page(OTHER, 16), Assign(OTHER, 57, 0, 3, 65), ASSIGN, frame(group=OTHER))
    assert host.machine.got == [(OTHER, FULL[4:])]


def test_a_page_is_not_heard_on_a_traffic_channel() -> None:
    host = Host().hear(PAGE, ASSIGN, Page(OTHER, 63), frame())
    assert host.state is RxState.RECEIVING


def test_another_channel_and_another_station_are_not_heard() -> None:
    host = Host().hear(PAGE, ASSIGN, frame(0, 0, False))
    host.hear(frame(1, 1, timeslot=4), frame(1, 1, carrier=1), release(1, timeslot=4))
    host.hear(frame(1, 1), release(1), sender=NEIGHBOUR)
    assert host.state is RxState.RECEIVING
    assert host.payloads == []


def test_a_second_copy_of_a_frame_changes_nothing() -> None:
    host = Host().hear(PAGE, PAGE, ASSIGN, ASSIGN, frame(0), frame(0), release(1), release(1))
    assert host.payloads == [FULL[4:]]
    assert host.noted == []


def test_a_host_s_clock_need_not_agree_with_the_station_s() -> None:
    host = Host()
    host.bench.now = 123_456_789
    host.bench.step("x", Received(PAGE, STATION))
    assert host.due == 123_456_789 + GSM.block_end(57) - GSM.block_end(12) + GUARD


def test_a_burst_goes_on_over_the_end_of_the_frame_numbers() -> None:
    page = Page(G, GSM.first_pch(HYPERFRAME - 10))
    assign = Assign(G, 6, 0, 3, GSM.start_after(6))
    host = Host()
    for packet in (page, assign):
        host.bench.step("x", Received(packet, STATION))
    assert host.state is RxState.ASSIGNED


# --- subscriptions ---------------------------------------------------------------------------------------------------


def test_a_group_that_is_left_loses_its_channel_and_its_pages() -> None:
    host = Host().hear(PAGE, ASSIGN, frame(0, 0, False))
    host.cell.unsubscribe(OTHER)
    assert host.state is RxState.RECEIVING
    host.cell.unsubscribe(G)
    assert host.state is RxState.IDLE
    host.hear(frame(1, 1), Page(G, 114))
    assert host.payloads == []
    assert host.state is RxState.IDLE


def test_a_page_of_a_group_that_is_left_is_forgotten() -> None:
    host = Host().hear(PAGE, Page(OTHER, 16))
    host.cell.unsubscribe(G)
    assert host.state is RxState.PAGED
    host.cell.unsubscribe(OTHER)
    assert host.state is RxState.IDLE


def test_a_burst_under_way_is_not_joined() -> None:
    host = Host()
    host.cell.unsubscribe(G)
    host.hear(PAGE)
    host.cell.subscribe(G)
    host.hear(ASSIGN, frame(0))
    assert host.payloads == []


def test_more_groups_than_the_limit_are_the_owner_s_mistake() -> None:
    cell: CellRx = Host().cell
    for group in range(1, GROUPS_MAX + 1):
        cell.subscribe(group)
    cell.subscribe(1)
    with pytest.raises(ContractError, match="256 groups at most"):
        cell.subscribe(GROUPS_MAX + 1)


# --- what cannot be true ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        pytest.param(Page(G, 6), "no PCH block begins", id="a page on the AGCH"),
        pytest.param(Page(G, 13), "no PCH block begins", id="a page within a block"),
        pytest.param(Page(G, -39), "no PCH block begins", id="a page before time"),
        pytest.param(Page(G, 12 + HYPERFRAME), "no PCH block begins", id="a number beyond the hyperframe"),
        pytest.param(Assign(G, 63, 0, 3, 71), "no AGCH block begins", id="an assignment on the PCH"),
        pytest.param(Assign(G, 57, 0, 0, 65), "no traffic channel", id="the common channel assigned"),
        pytest.param(Assign(G, 57, 16, 0, 65), "no traffic channel", id="a carrier too many"),
        pytest.param(Assign(G, 57, 0, 8, 65), "no traffic channel", id="a ninth timeslot"),
        pytest.param(Assign(G, 57, 0, 3, 69), "begins in 69", id="a burst that starts late"),
        pytest.param(frame(frame=66), "no block begins", id="a frame within a block"),
        pytest.param(frame(timeslot=0), "no traffic channel", id="data on the common channel"),
        pytest.param(frame(payload=FULL + b"?"), "21 bytes", id="more than a block holds"),
        pytest.param(frame(last=False, payload=b"short"), "5 bytes", id="a short fragment that is not the last"),
        pytest.param(frame(index=1, payload=b""), "0 bytes", id="an empty last fragment"),
        pytest.param(frame(index=1, last=False, payload=b""), "a fill frame", id="a fill frame with an index"),
        pytest.param(frame(index=205), "outside the 4096", id="a fragment beyond the largest message"),
        pytest.param(frame(index=-1), "outside the 4096", id="a fragment before the first"),
        pytest.param(frame(counter=-1), "no burst", id="a counter below nothing"),
        pytest.param(Release(66, 0, 3), "no block begins", id="a release within a block"),
        pytest.param(Release(69, 0, 9), "no traffic channel", id="a release of no channel"),
    ],
)
@pytest.mark.parametrize("heard", [(), (PAGE,), (PAGE, ASSIGN), (PAGE, ASSIGN, frame(0, 0, False))])
def test_what_cannot_be_true_is_blamed_on_the_peer_and_changes_nothing(
    heard: tuple[Packet, ...], wrong: Packet, problem: str
) -> None:
    host = Host().hear(*heard)
    before = _inside(host.cell)
    with pytest.raises(PeerError, match=problem):
        host.machine.step(Received(wrong, STATION), host.bench.now)
    assert _inside(host.cell) == before


def _inside(cell: CellRx) -> tuple[Any, ...]:
    return (cell.state, cell._due, cell._heard, cell._counter, cell._tuned, set(cell._paged), list(cell._fragments))
