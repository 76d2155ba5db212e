"""The station's side of the cellular channel: each row of table 5.3 of the EOMP specification, and the limits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from cell_radio import PROTOCOL, RadioStation

from castbed import ContractError, Kind, topology
from castbed.actions import Broadcast
from castbed.packets import Packet
from castbed.parts import CellOptions, CellTx, GsmTiming
from castbed.parts.cell_channel import (
    GROUPS_MAX,
    NO_CHANNEL,
    PAYLOAD_BYTES_MAX,
    TX_TRANSITIONS,
    Assign,
    Frame,
    Page,
    Release,
    TxEvent,
    TxState,
)
from castbed.parts.cell_channel.timing import HYPERFRAME
from castbed.testing import Bench

GSM = GsmTiming()
G, OTHER, THIRD = 1, 2, 3


class Station:
    """A station alone in its cell, whose blocks go by one at a time."""

    def __init__(self, **options: Any) -> None:
        shape = topology.cellular(("S",), {"x": ""}, dict.fromkeys((G, OTHER, THIRD), (2,)))
        self.bench = Bench(PROTOCOL, shape, options=CellOptions(**options))
        machine = self.bench.machines["S"]
        assert isinstance(machine, RadioStation)
        self.cell: CellTx = machine.cell

    def say(self, size: int = 16, group: int = G) -> None:
        """With the 4 bytes of its number, 16 bytes fill one block."""
        self.bench.submit("S", bytes(size), group)

    def block(self) -> Packet:
        """What the station sends in the next block in which it sends anything."""
        (node, timer), _ = min(self.bench.timers.items(), key=lambda item: item[1])
        (packet,) = (did.packet for did in self.bench.expire(node, timer) if isinstance(did, Broadcast))
        return packet

    def blocks(self, count: int) -> list[Packet]:
        return [self.block() for _ in range(count)]

    def rest(self) -> list[Packet]:
        """Everything until nothing is to be done any more."""
        sent = []
        while self.bench.timers:
            sent.append(self.block())
        return sent

    def state(self, group: int = G) -> TxState:
        return self.cell.state(group)


# --- table 5.3 -------------------------------------------------------------------------------------------------------


def test_5_3_idle_queued_schedules_a_page_in_the_next_pch() -> None:
    station = Station()
    assert station.state() is TxState.IDLE
    station.say()
    assert station.state() is TxState.PAGING
    assert station.block() == Page(G, 12)
    assert station.bench.now == GSM.block_end(12)


def test_5_3_paging_page_sent_reserves_a_channel_and_schedules_the_assignment() -> None:
    station = Station()
    station.say()
    station.block()
    assert (station.state(), station.cell.free_channels) == (TxState.ASSIGNING, 6)
    assert station.block() == Assign(G, 57, carrier=0, timeslot=1, start=65)
    assert station.bench.now == GSM.block_end(57)


def test_5_3_paging_none_free_stays_and_pages_again_in_the_next_pch() -> None:
    station = Station(channels=1)
    station.say()
    station.say(group=OTHER)
    assert station.blocks(3) == [Page(G, 12), Page(OTHER, 12), Page(OTHER, 16)]
    assert (station.state(G), station.state(OTHER)) == (TxState.ASSIGNING, TxState.PAGING)
    noted = [event.group for event in station.bench.history().of(Kind.NOTE) if event.text == NO_CHANNEL]
    assert noted == [OTHER, OTHER]


def test_5_3_paging_gets_the_channel_when_it_is_free() -> None:
    station = Station(channels=1)
    station.say()
    station.say(group=OTHER)
    sent = station.rest()
    released = next(at for at, packet in enumerate(sent) if isinstance(packet, Release))
    after = [packet for packet in sent[released:] if not isinstance(packet, Frame)]
    assert [type(packet) for packet in after] == [Release, Page, Assign, Release]
    assert after[2] == Assign(OTHER, 108, 0, 1, 117)


def test_5_3_assigning_assign_sent_sends_from_start_on() -> None:
    station = Station()
    station.say()
    station.blocks(2)
    assert station.state() is TxState.SENDING
    assert station.block() == Frame(G, b"\0\0\0\1" + bytes(16), 65, 0, 1, counter=0, index=0, last=True)
    assert station.bench.now == GSM.block_end(65, 1)


def test_5_3_sending_frame_slot_sends_the_next_fragment() -> None:
    station = Station()
    station.say(37)
    station.blocks(2)
    frames = [packet for packet in station.blocks(3) if isinstance(packet, Frame)]
    assert [(f.frame, f.counter, f.index, f.last, len(f.payload)) for f in frames] == [
        (65, 0, 0, False, 20),
        (69, 1, 1, False, 20),
        (73, 2, 2, True, 1),
    ]
    assert station.state() is TxState.SENDING


def test_5_3_sending_more_messages_join_the_burst() -> None:
    station = Station()
    station.say()
    station.blocks(4)
    station.say(37)
    rest = station.rest()
    assert [type(packet) for packet in rest] == [Frame] * 5 + [Release]
    frames = [packet for packet in rest if isinstance(packet, Frame)]
    assert [(f.counter, f.index, f.last, f.is_fill) for f in frames] == [
        (2, 0, False, False),
        (3, 1, False, False),
        (4, 2, True, False),
        (5, 0, False, True),
        (6, 0, False, True),
    ]


def test_5_3_sending_queue_empty_for_the_hold_time_releases() -> None:
    station = Station()
    station.say()
    station.blocks(3)
    station.block()
    assert station.state() is TxState.SENDING
    station.block()
    assert station.state() is TxState.RELEASING
    assert station.block() == Release(GSM.traffic_after(73), 0, 1)


@pytest.mark.parametrize("hold_frames", [0, 1, 5])
def test_5_3_the_hold_time_is_the_number_of_fill_frames(hold_frames: int) -> None:
    station = Station(hold_frames=hold_frames)
    station.say()
    frames = [packet for packet in station.rest() if isinstance(packet, Frame)]
    assert [frame.is_fill for frame in frames] == [False] + [True] * hold_frames


def test_5_3_sending_a_burst_longer_than_max_burst_releases_after_its_message() -> None:
    station = Station(max_burst=30_000_000)
    for _ in range(3):
        station.say(36)
    sent = station.rest()
    assert [type(packet).__name__[0] for packet in sent] == list("PAFFR") * 3
    frames = [packet for packet in sent if isinstance(packet, Frame)]
    assert [(frame.index, frame.last) for frame in frames] == [(0, False), (1, True)] * 3


def test_5_3_a_message_longer_than_max_burst_is_not_cut() -> None:
    station = Station(max_burst=1)
    station.say(96)
    assert [type(packet) for packet in station.rest()] == [Page, Assign, *[Frame] * 5, Release]


def test_5_3_releasing_release_sent_frees_the_channel() -> None:
    station = Station()
    station.say()
    station.blocks(5)
    assert (station.state(), station.cell.free_channels) == (TxState.RELEASING, 6)
    assert isinstance(station.block(), Release)
    assert (station.state(), station.cell.free_channels) == (TxState.IDLE, 7)
    assert station.bench.timers == {}


def test_5_3_releasing_pages_again_if_data_waits() -> None:
    station = Station()
    station.say()
    station.blocks(5)
    station.say()
    assert isinstance(station.block(), Release)
    assert (station.state(), station.cell.free_channels) == (TxState.PAGING, 7)
    assert station.block() == Page(G, GSM.first_pch(GSM.frame_from(GSM.block_end(77, 1))))


def test_5_3_the_table_is_the_specification_s() -> None:
    rows = {(state.value, event.name, after.value) for (state, event), after in TX_TRANSITIONS.items()}
    assert rows == {
        ("idle", "QUEUED", "paging"),
        ("paging", "PAGE_SENT", "assigning"),
        ("paging", "NONE_FREE", "paging"),
        ("assigning", "ASSIGN_SENT", "sending"),
        ("sending", "FRAME_SENT", "sending"),
        ("sending", "BURST_OVER", "releasing"),
        ("releasing", "RELEASE_SENT", "idle"),
        ("releasing", "DATA_WAITS", "paging"),
    }
    assert {state for state, _ in TX_TRANSITIONS} == set(TxState)
    assert {event for _, event in TX_TRANSITIONS} == set(TxEvent)


# --- groups share the cell -------------------------------------------------------------------------------------------


def test_two_groups_are_named_in_one_block_and_get_a_channel_each() -> None:
    station = Station()
    station.say()
    station.say(group=OTHER)
    assert station.blocks(4) == [Page(G, 12), Page(OTHER, 12), Assign(G, 57, 0, 1, 65), Assign(OTHER, 57, 0, 2, 65)]


def test_a_group_waits_for_the_page_whose_assignment_has_room() -> None:
    station = Station()
    for group in (G, OTHER, THIRD):
        station.say(group=group)
    third = [packet for packet in station.rest() if getattr(packet, "group", 0) == THIRD]
    assert third[:2] == [Page(THIRD, 63), Assign(THIRD, 108, 0, 3, 117)]


def test_channels_are_given_out_from_the_lowest_and_come_back() -> None:
    station = Station(channels=2)
    for _ in range(2):
        station.say()
        station.say(group=OTHER)
        assert {type(packet) for packet in station.rest()} == {Page, Assign, Frame, Release}
        assert station.cell.free_channels == 2


def test_frame_numbers_begin_again_after_a_hyperframe() -> None:
    station = Station()
    station.bench.now = GSM.frame_start(HYPERFRAME - 4)
    station.say()
    assert station.block() == Page(G, 12)
    assert station.bench.now == GSM.block_end(HYPERFRAME + 12)


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_message_beyond_the_queue_s_limit_is_not_taken() -> None:
    station = Station(queue_max=2)
    assert [station.cell.queue(G, b"") for _ in range(3)] == [True, True, False]
    assert station.cell.queue(OTHER, b"")


def test_a_group_beyond_the_limit_is_not_taken() -> None:
    station = Station()
    assert all(station.cell.queue(group, b"") for group in range(1, GROUPS_MAX + 1))
    assert not station.cell.queue(GROUPS_MAX + 1, b"")
    assert station.cell.queue(1, b"")


def test_a_message_that_no_burst_could_carry_is_the_owner_s_mistake() -> None:
    station = Station()
    assert station.cell.queue(G, bytes(PAYLOAD_BYTES_MAX))
    with pytest.raises(ContractError, match="4097 bytes"):
        station.cell.queue(G, bytes(PAYLOAD_BYTES_MAX + 1))


def test_an_empty_message_is_one_frame_and_no_fill() -> None:
    station = Station(hold_frames=0)
    station.cell.queue(G, b"")
    station.say()
    frames = [packet for packet in station.rest() if isinstance(packet, Frame)]
    assert [(frame.last, frame.is_fill, len(frame.payload)) for frame in frames] == [
        (True, False, 0),
        (True, False, 20),
    ]


def test_many_groups_share_blocks_and_channels_without_collision() -> None:
    station = Station(channels=3)
    for group in range(1, 21):
        station.say(196, group)
    sent = station.rest()
    for kind in (Page, Assign):
        in_block = Counter(packet.frame for packet in sent if isinstance(packet, kind))
        assert max(in_block.values()) == 2
    places = [(f.frame, f.carrier, f.timeslot) for f in sent if isinstance(f, Frame | Release)]
    assert len(places) == len(set(places))
    assert {packet.group for packet in sent if isinstance(packet, Assign)} == set(range(1, 21))
    assert station.cell.free_channels == 3
