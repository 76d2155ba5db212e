"""nl80211 messages and 802.11 frames as bytes: as pyroute2 sends, the kernel means, and tshark sees them."""

from __future__ import annotations

import asyncio
import errno
import shutil
import socket
import subprocess
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from pyroute2.iwutil import AsyncIW
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nl80211 import nl80211cmd

from castbed import ConfigurationError, PeerError, UnavailableError
from castbed.links import RunSetting
from castbed.topology import broadcast
from castbed.units import BitRate, convert
from castbed.wire import ETHERTYPE
from castbed_adapters.wifi import network as networks
from castbed_adapters.wifi import radio as radios
from castbed_adapters.wifi.framing import MonitorFraming, dot11_head
from castbed_adapters.wifi.network import WifiNetwork, interfaces_of
from castbed_adapters.wifi.options import WifiOptions
from castbed_adapters.wifi.radio import (
    IBSS,
    MONITOR,
    Radio,
    ask_message,
    join_message,
    leave_message,
    tune_message,
    type_message,
)
from castbed_adapters.wifi.sockets import PacketSocket

STATION = 2
BSSID = "02:ca:fe:ca:fe:40"
OPTIONS = WifiOptions(interface="wlan0", ssid="castbed", frequency=2412, bssid=BSSID)
CELL = bytes.fromhex(BSSID.replace(":", ""))


def encoded(message: Any) -> bytes:
    message.encode()
    return bytes(message.data)


def decoded(data: bytes) -> tuple[int, dict[str, Any]]:
    message = nl80211cmd(data)
    message.decode()
    return message["cmd"], {name.removeprefix("NL80211_ATTR_"): value for name, value in message["attrs"]}


class Recorded(AsyncIW):  # type: ignore[misc]
    """pyroute2's own calls, with the messages kept instead of sent."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    async def _do_request(self, msg: Any, msg_flags: int = 0) -> None:  # noqa: ARG002 (pyroute2's signature)
        self.messages.append(encoded(msg))


# --- messages --------------------------------------------------------------------------------------------------------


def test_our_messages_are_those_that_pyroute2_would_send() -> None:
    theirs = Recorded()

    async def calls() -> None:
        await theirs.set_interface_type(7, "adhoc")
        await theirs.join_ibss(7, "castbed", 2412, bssid=BSSID, channel_fixed=True, width="20_noht")
        await theirs.leave_ibss(7)

    asyncio.run(calls())
    ours = [type_message(7, IBSS), join_message(7, OPTIONS), leave_message(7)]
    assert [encoded(message) for message in ours] == theirs.messages


def test_the_messages_say_what_the_kernels_header_means_by_them() -> None:
    """Numbers of linux/nl80211.h: commands 5, 6, 43, 44 and 2; attributes by number in the bytes."""
    command, attributes = decoded(encoded(join_message(7, OPTIONS)))
    assert command == 43
    assert attributes == {
        "IFINDEX": 7, "SSID": "castbed", "WIPHY_FREQ": 2412, "FREQ_FIXED": "", "CHANNEL_WIDTH": 0, "MAC": BSSID,
    }  # fmt: skip
    assert decoded(encoded(type_message(7, MONITOR))) == (6, {"IFINDEX": 7, "IFTYPE": 6})
    assert decoded(encoded(ask_message(7))) == (5, {"IFINDEX": 7})
    assert decoded(encoded(leave_message(7))) == (44, {"IFINDEX": 7})
    assert decoded(encoded(tune_message(7, 5180))) == (2, {"IFINDEX": 7, "WIPHY_FREQ": 5180, "CHANNEL_WIDTH": 0})
    ssid = (4 + 7).to_bytes(2, "little") + (52).to_bytes(2, "little") + b"castbed"
    assert ssid in encoded(join_message(7, OPTIONS))


def test_the_multicast_rate_is_said_in_units_of_100_kbit() -> None:
    options = WifiOptions(interface="wlan0", ssid="castbed", frequency=2412, multicast_rate=BitRate(6_000_000))
    data = encoded(join_message(7, options))
    assert (8).to_bytes(2, "little") + (107).to_bytes(2, "little") + (60).to_bytes(4, "little") in data
    assert "MAC" not in decoded(data)[1]


# --- carrying them out -----------------------------------------------------------------------------------------------


class Machine:
    """Stands for the kernel: keeps what it is told, and refuses one command if that is wanted."""

    def __init__(self, refuses: int = 0, code: int = 0, kind: int = STATION, up: bool = True) -> None:
        self.kind, self.up = kind, up
        self.asked: list[str] = []
        self._refuses, self._code = refuses, code

    @cached_property
    def radio(self) -> Radio:
        return Radio("wlan0", 7, self.request, self.set_link, self.is_up)

    def request(self, message: Any) -> list[Any]:
        command, attributes = decoded(encoded(message))
        if command == self._refuses:
            raise NetlinkError(self._code)
        if command == 5:
            return [type_message(7, self.kind)]
        self.kind = attributes.get("IFTYPE", self.kind)
        self.asked.append(f"{command} {attributes.get('IFTYPE', '')}".strip())
        return []

    def set_link(self, _: int, state: str) -> None:
        self.up = state == "up"
        self.asked.append(state)

    def is_up(self, _: int) -> bool:
        return self.up


def test_a_cell_is_joined_with_the_interface_down_for_the_change_of_type() -> None:
    machine = Machine()
    machine.radio.join_cell(OPTIONS)
    machine.radio.restore()
    assert machine.asked == ["down", "6 1", "up", "43", "44", "down", "6 2", "up"]


def test_a_monitor_is_tuned_and_becomes_a_station_again() -> None:
    machine = Machine()
    machine.radio.watch(2412)
    machine.radio.restore()
    assert machine.asked == ["down", "6 6", "up", "2", "down", "6 2", "up"]


@pytest.mark.parametrize("kind", [IBSS, STATION, MONITOR])
@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
def test_a_radio_is_restored_once_to_the_type_and_the_state_that_it_had(kind: int, up: bool) -> None:
    machine = Machine(kind=kind, up=up)
    machine.radio.join_cell(OPTIONS)
    machine.radio.restore()
    assert (machine.kind, machine.up) == (kind, up)
    if kind != IBSS:
        machine.asked.clear()
        machine.radio.restore()
        assert machine.asked == []


def on_machines(machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch) -> WifiNetwork:
    """The network of a run that wants these interfaces, by name, in a cell."""
    monkeypatch.setattr(networks, "open_packet_socket", lambda *_, **__: closing_socket())
    monkeypatch.setattr(networks, "interface_index", lambda name: 7)
    monkeypatch.setattr(networks, "open_radio", lambda name, index: machines[name].radio)
    options = msgspec.structs.replace(OPTIONS, interface="", interfaces={name: name for name in machines})
    return WifiNetwork(RunSetting(b"this run", broadcast(tuple(machines)), options))


def closing_socket() -> PacketSocket:
    return PacketSocket(socket.socket(), b"", 1, 1500)


def test_no_interface_is_changed_where_another_one_is_no_radio(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = {"a": Machine(up=False), "b": Machine(5, errno.ENODEV)}
    network = on_machines(machines, monkeypatch)
    with pytest.raises(UnavailableError, match="it is no wireless interface"):
        network.open()
    network.close()
    assert machines["a"].asked == machines["b"].asked == []


def test_only_interfaces_that_were_changed_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = {"a": Machine(), "b": Machine(43, errno.ERFKILL), "c": Machine(kind=MONITOR)}
    network = on_machines(machines, monkeypatch)
    with pytest.raises(UnavailableError, match="its transmitter is switched off"):
        network.open()
    network.close()
    assert [machine.kind for machine in machines.values()] == [STATION, STATION, MONITOR]
    assert machines["c"].asked == []


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (6, errno.EPERM, "the interface 'wlan0' cannot go into ad hoc mode: that needs root (CAP_NET_ADMIN)"),
        (6, errno.EOPNOTSUPP, "the interface 'wlan0' cannot go into ad hoc mode: its driver cannot"),
        (6, errno.ENODEV, "the interface 'wlan0' cannot go into ad hoc mode: it is no wireless interface"),
        (43, errno.EINVAL, "the interface 'wlan0' cannot join the cell 'castbed' at 2412 MHz: its driver or the regul"),
        (43, errno.ERFKILL, "the interface 'wlan0' cannot join the cell 'castbed' at 2412 MHz: its transmitter is"),
        (43, errno.EIO, "the interface 'wlan0' cannot join the cell 'castbed' at 2412 MHz: EIO"),
    ],
)
def test_what_a_driver_refuses_is_said_in_one_sentence(command: int, code: int, said: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        Machine(command, code).radio.join_cell(OPTIONS)
    assert str(caught.value).startswith(said)
    assert caught.value.exit_code == 3


def test_an_interface_that_cannot_change_its_type_goes_up_again() -> None:
    machine = Machine(6, errno.EOPNOTSUPP)
    with pytest.raises(UnavailableError, match="cannot go into monitor mode"):
        machine.radio.watch(2412)
    assert machine.asked == ["down", "up"]


def test_an_interface_that_is_no_radio_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(5, errno.ENODEV)
    monkeypatch.setattr(radios, "_request", machine.request)
    monkeypatch.setattr(radios, "_set_link", machine.set_link)
    monkeypatch.setattr(radios, "_is_up", machine.is_up)
    options = WifiOptions(interface="lo", mode="monitor", frequency=2412)
    network = WifiNetwork(RunSetting(b"this run", broadcast(("A",)), options))
    with pytest.raises(UnavailableError, match="'lo' cannot be asked what it is: it is no wireless interface"):
        network.open()
    network.close()
    assert machine.asked == []


def test_leaving_a_cell_that_is_gone_is_no_error() -> None:
    machine = Machine(44, errno.ENOTCONN)
    machine.radio.join_cell(OPTIONS)
    machine.radio.restore()
    assert machine.kind == STATION


def test_a_kernel_without_wireless_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise NetlinkError(errno.ENOENT)

    monkeypatch.setattr(radios, "_QuietIW", absent)
    with pytest.raises(UnavailableError, match="this kernel has no nl80211: load cfg80211"):
        radios.open_radio("wlan0", 7)


class Wireless:
    """A netlink socket that knows whether it was closed."""

    opened: ClassVar[list[Wireless]] = []
    prid = 33

    def __init__(self) -> None:
        self.closed = False
        self.opened.append(self)

    def __enter__(self) -> Wireless:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def nlm_request(self, *_: object, **__: object) -> Iterator[Any]:
        raise NetlinkError(errno.EOPNOTSUPP)
        yield


def test_no_socket_stays_open_behind_a_radio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radios, "_QuietIW", Wireless)
    with pytest.raises(UnavailableError, match="its driver cannot"):
        radios.open_radio("wlan0", 7)
    assert [asking.closed for asking in Wireless.opened] == [True]


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "`interface` is required"),
        ({"interface": "w", "bssid": "nonsense"}, "`bssid` is written like"),
        ({"interface": "w", "ssid": "x" * 33, "frequency": 2412}, "`ssid` has at most 32 bytes"),
        ({"interface": "w", "ssid": "x"}, "`ssid` is for an ad hoc cell"),
        ({"interface": "w", "ssid": "x", "frequency": 2412, "mode": "monitor"}, "`ssid` is for an ad hoc cell"),
        ({"interface": "w", "multicast_rate": "6Mbit/s"}, "`multicast_rate` is of an ad hoc cell"),
        ({"interface": "w", "frequency": 17}, "expected `int` >= 2000"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        convert(options, WifiOptions, "transport.options")
    assert said in str(caught.value)


def test_nodes_have_the_interface_of_their_own_or_the_one_for_all() -> None:
    topology = broadcast(("A", "B"))
    assert interfaces_of(topology, WifiOptions(interface="w", interfaces={"B": "x"})) == {1: "w", 2: "x"}
    with pytest.raises(ConfigurationError, match="there is none for A"):
        interfaces_of(topology, WifiOptions(interfaces={"B": "x"}))
    with pytest.raises(ConfigurationError, match="there is no such node"):
        interfaces_of(topology, WifiOptions(interface="w", interfaces={"C": "x"}))


# --- 802.11 ----------------------------------------------------------------------------------------------------------

ADDRESS = b"\x02\xcb\0\0\0\1"


def test_the_head_of_an_injected_frame_is_radiotap_data_and_snap() -> None:
    head = dot11_head(ADDRESS, CELL, ETHERTYPE)
    assert head[:12] == bytes.fromhex("00000c000480000002000800")
    assert head[12:14] == b"\x08\x00"
    assert head[16:34] == b"\xff" * 6 + ADDRESS + CELL
    assert head[-8:] == bytes.fromhex("aaaa0300000088b5")


def test_frames_are_read_with_and_without_quality_of_service() -> None:
    framing = MonitorFraming(ADDRESS, CELL)
    plain = framing.wrapped(ETHERTYPE, b"data")
    assert framing.unwrapped(plain, True) == (ETHERTYPE, b"data")
    quality = plain[:12] + b"\x88" + plain[13:36] + b"\0\0" + plain[36:]
    assert framing.unwrapped(quality, True) == (ETHERTYPE, b"data")


@pytest.mark.parametrize(
    ("at", "value"), [(0, 1), (2, 255), (12, 0x80), (13, 0x01), (13, 0x40), (30, 0x99), (36, 0), (12, 0x48)]
)
def test_what_is_not_a_data_frame_of_the_cell_is_foreign(at: int, value: int) -> None:
    framing = MonitorFraming(ADDRESS, CELL)
    data = bytearray(framing.wrapped(ETHERTYPE, b"data"))
    data[at] = value
    with pytest.raises(PeerError):
        framing.unwrapped(bytes(data), True)


def test_every_cut_of_a_frame_is_foreign_or_shorter() -> None:
    framing = MonitorFraming(ADDRESS, CELL)
    data = framing.wrapped(ETHERTYPE, b"")
    for size in range(len(data)):
        with pytest.raises(PeerError):
            framing.unwrapped(data[:size], True)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_sees_the_cell_the_sender_and_the_ethertype(tmp_path: Path) -> None:
    from scapy.utils import wrpcap

    capture = tmp_path / "injected.pcap"
    wrpcap(str(capture), [MonitorFraming(ADDRESS, CELL).wrapped(ETHERTYPE, bytes(60))], linktype=127)
    names = ("wlan.bssid", "wlan.sa", "wlan.da", "wlan.fc.type_subtype", "wlan.fc.ds", "llc.type", "radiotap.txflags")
    fields = [option for name in (*names, "_ws.malformed") for option in ("-e", name)]
    command = ["tshark", "-r", str(capture), "-T", "fields", *fields]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    seen = done.stdout.rstrip("\n").split("\t")
    assert seen[:3] == [BSSID, "02:cb:00:00:00:01", "ff:ff:ff:ff:ff:ff"]
    assert [int(value, 16) for value in seen[3:7]] == [0x20, 0, ETHERTYPE, 0x0008]
    assert seen[7:] in ([], [""])
