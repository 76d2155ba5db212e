"""Both sides of the cellular channel together, with any copy lost: nothing is ever altered or handed up twice."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from cell_radio import PROTOCOL, RadioHost
from hypothesis import given, settings
from hypothesis import strategies as st

from castbed import topology
from castbed.parts import CellOptions
from castbed.parts.cell_channel import PACKETS, Assign, Frame, Page, RxState, TxState
from castbed.testing import Bench
from castbed.testing.bench import Copy

HOSTS = {"x": "S", "y": "S", "z": "S"}
GROUPS = {1: (3, 4, 5), 2: (3, 4)}
MILLISECOND = 1_000_000
OPTIONS = CellOptions(max_burst=100 * MILLISECOND, channels=2)


def cell(options: CellOptions = OPTIONS) -> Bench:
    """The cell of S with three hosts, and an empty one; x and y are in both groups, z in the first."""
    return Bench(PROTOCOL, topology.cellular(("S", "N"), HOSTS, GROUPS), options=options)


def host(bench: Bench, name: str) -> RadioHost:
    machine = bench.machines[name]
    assert isinstance(machine, RadioHost)
    return machine


def pass_time(bench: Bench, end: int, fate: Callable[[Copy], int]) -> None:
    """Let blocks go by until `end`; `fate` says how many times each copy arrives."""
    while bench.timers and min(bench.timers.values()) <= end:
        (node, timer), _ = min(bench.timers.items(), key=lambda item: item[1])
        bench.expire(node, timer)
        for copy in list(bench.in_flight):
            times = fate(copy)
            bench.in_flight.extend([copy] * (times - 1))
            for _ in range(times):
                bench.arrive(copy)
        bench.in_flight.clear()
    bench.now = end


def test_tv13_a_host_gets_the_burst_or_leaves_it() -> None:
    """TV13: x hears everything, y misses the AGCH, z misses the second of four frames."""
    bench = cell()
    heard: dict[str, list[Frame]] = {name: [] for name in HOSTS}

    def fate(copy: Copy) -> int:
        packet = copy.packet
        if isinstance(packet, Frame) and host(bench, copy.to).cell.state in (RxState.ASSIGNED, RxState.RECEIVING):
            heard[copy.to].append(packet)
        missed = copy.to == "z" and isinstance(packet, Frame) and packet.counter == 1
        return 0 if missed or (copy.to == "y" and isinstance(packet, Assign)) else 1

    message = bytes(range(76))
    bench.submit("S", message)
    pass_time(bench, 1000 * MILLISECOND, fate)
    assert host(bench, "x").got == [(1, message)]
    assert host(bench, "y").got == host(bench, "z").got == []
    assert {name: [f.counter for f in frames] for name, frames in heard.items()} == {
        "x": [0, 1, 2, 3, 4, 5],  # four of the message, two of the hold time
        "y": [],
        "z": [0, 1],  # the second is the one that is lost
    }


def test_what_a_station_sends_does_not_depend_on_what_hosts_hear() -> None:
    """TV13: the station behaves identically in all cases."""
    sent: list[list[object]] = []
    for times in (0, 1):
        bench, packets = cell(), []
        bench.submit("S", bytes(100))

        def fate(copy: Copy, times: int = times, packets: list[object] = packets) -> int:
            packets.append(copy.packet)
            return times

        pass_time(bench, 1000 * MILLISECOND, fate)
        sent.append(packets)
    assert sent[0] == sent[1]
    assert {type(packet) for packet in sent[0]} == set(PACKETS)


def test_a_host_that_missed_a_frame_gets_the_next_burst() -> None:
    bench = cell()
    bench.submit("S", b"first")
    pass_time(bench, 1000 * MILLISECOND, lambda copy: not (copy.to == "z" and isinstance(copy.packet, Frame)))
    bench.submit("S", b"second")
    pass_time(bench, 2000 * MILLISECOND, lambda copy: 1)
    assert [payload for _, payload in host(bench, "x").got] == [b"first", b"second"]
    assert [payload for _, payload in host(bench, "z").got] == [b"second"]


def test_a_host_that_comes_within_a_burst_gets_the_next_one() -> None:
    bench = cell()
    bench.move("z", "N")
    for number in range(4):
        bench.submit("S", bytes([number]) * 76)  # four frames each: the second ends beyond 100 ms, and the burst too
    pass_time(bench, 330 * MILLISECOND, lambda copy: 1)
    assert host(bench, "x").cell.state is RxState.RECEIVING
    bench.move("z", "S")
    pass_time(bench, 3000 * MILLISECOND, lambda copy: 1)
    assert [payload[0] for _, payload in host(bench, "x").got] == [0, 1, 2, 3]
    assert [payload[0] for _, payload in host(bench, "z").got] == [2, 3]


steps = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(sorted(GROUPS)), st.binary(max_size=90)),
    st.tuples(st.just("pass"), st.integers(1, 600), st.lists(st.integers(0, 9), min_size=1, max_size=30)),
    st.tuples(st.just("move"), st.sampled_from(sorted(HOSTS)), st.sampled_from([None, "S", "N"])),
)


@settings(max_examples=150, deadline=None)
@given(script=st.lists(steps, max_size=25), hold_frames=st.integers(0, 2), channels=st.integers(1, 2))
def test_nothing_is_altered_or_handed_up_twice_whatever_is_lost(
    script: list[tuple[str, int | str, object]], hold_frames: int, channels: int
) -> None:
    """A copy is lost (0, 1), arrives twice (2), or once (3 to 9), in the order that hypothesis likes."""
    bench = cell(CellOptions(max_burst=100 * MILLISECOND, channels=channels, hold_frames=hold_frames))
    said: dict[int, list[bytes]] = {group: [] for group in GROUPS}
    for what, first, second in script:
        if what == "say":
            payload = bench.topology.name(1).encode() + len(said[first]).to_bytes(2, "big") + second
            bench.submit("S", payload, first)
            said[first].append(payload)
        elif what == "pass":
            _pass_with(bench, first, second)
        else:
            bench.move(first, second)
    pass_time(bench, bench.now + 60_000 * MILLISECOND, lambda copy: 1)
    _check_quiet(bench)
    for name in HOSTS:
        for group in GROUPS:
            got = [payload for in_group, payload in host(bench, name).got if in_group == group]
            assert _is_subsequence(got, said[group]), (name, got)


def _pass_with(bench: Bench, milliseconds: int, fates: list[int]) -> None:
    times = cycle({0: 0, 1: 0, 2: 2}.get(drawn, 1) for drawn in fates)
    pass_time(bench, bench.now + milliseconds * MILLISECOND, lambda copy: next(times))


def _check_quiet(bench: Bench) -> None:
    """All is sent, every channel is free, every host is back on the PCH."""
    station = bench.machines["S"].cell
    assert bench.timers == {}
    assert all(station.state(group) is TxState.IDLE for group in GROUPS)
    assert station.free_channels == station.options.channels
    assert all(host(bench, name).cell.state is RxState.IDLE for name in HOSTS)


def _is_subsequence(some: list[bytes], of: list[bytes]) -> bool:
    """In their order, none twice: all in `of` are different."""
    rest = iter(of)
    return all(payload in rest for payload in some)


def test_without_loss_every_host_of_a_group_gets_everything() -> None:
    bench = cell(CellOptions(channels=1))
    said = [bytes([number]) * 50 for number in range(20)]
    for payload in said:
        bench.submit("S", payload)
        pass_time(bench, bench.now + 70 * MILLISECOND, lambda copy: 1)
    pass_time(bench, bench.now + 10_000 * MILLISECOND, lambda copy: 1)
    assert all([payload for _, payload in host(bench, name).got] == said for name in HOSTS)
    assert bench.copies(Page) == []
