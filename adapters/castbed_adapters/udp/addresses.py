"""Addresses of a run: its port, the groups of its cells and of its nodes, and where its interface is reached.

Every cell has a multicast group, and so has every node, for what is sent to it alone. A node listens to both on one
socket, so that what one sender sends stays in order. Port and groups are drawn from the run's token; two runs that draw
the same still tell their frames apart by the token itself.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
from contextlib import suppress
from pathlib import Path

import msgspec

from castbed.errors import ConfigurationError, UnavailableError
from castbed.links import Cell
from castbed.values import NodeNumber
from castbed_adapters.interfaces import mtu_of
from castbed_adapters.udp.options import LOOPBACK

PORT_FIRST, PORTS = 20_000, 12_000  # below the ports that Linux hands out by itself
PORT_TRIES = 64
ECHO_S_MAX = 2.0  # a datagram to oneself takes microseconds where it arrives at all
GROUPS = 1 << 18  # 239.192.0.0/14, which organisations may use as they like (RFC 2365)
GROUP_FIRST = int.from_bytes(socket.inet_aton("239.192.0.0"), "big")
GROUP6_PREFIX = bytes.fromhex("ff12" + "00" * 6)  # transient, within the link
IP_MULTICAST_ALL, IPV6_MULTICAST_ALL = 49, 29  # Linux; Python has no names for them
_SIOCGIFADDR = 0x8915
_INTERFACE_NAME_MAX = 15
_IPV6_ADDRESSES = Path("/proc/thread-self/net/if_inet6")  # of the namespace that this thread is in
_LINK_LOCAL = "20"
_HEAD_BYTES = {4: 20 + 8, 6: 40 + 8}  # of IP and UDP
_DAD_FAILED, _TENTATIVE = 0x08, 0x40  # somebody else has the address, or may have it

SocketAddress = tuple[str, int] | tuple[str, int, int, int]


class Interface(msgspec.Struct, frozen=True):
    """Where a run takes place."""

    name: str
    index: int
    ip: int
    address: str

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET if self.ip == 4 else socket.AF_INET6

    def at(self, port: int) -> SocketAddress:
        """This machine's own address on the interface."""
        return (self.address, port) if self.ip == 4 else (self.address, port, 0, self.index)


def find_interface(name: str, ip: int) -> Interface:
    """The interface of this name; what it lacks is said in words."""
    known = {interface: index for index, interface in socket.if_nameindex()}
    if name not in known:
        problem = f"there is no interface {name!r} (there are: {', '.join(sorted(known))})"
        raise ConfigurationError("transport.options.interface", problem)
    address = _ipv4_address(name) if ip == 4 else _ipv6_address(name)
    if address is None:
        raise UnavailableError(f"the interface {name!r} has no IPv{ip} address; give it one, or choose another")
    return Interface(name, known[name], ip, address)


def _ipv4_address(name: str) -> str | None:
    request = struct.pack("256s", name.encode()[:_INTERFACE_NAME_MAX])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, suppress(OSError):
        return socket.inet_ntoa(fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)[20:24])
    return None


def _ipv6_address(name: str) -> str | None:
    """Of several addresses that can be used one that is valid beyond the link."""
    found: list[tuple[bool, str]] = []
    checked = False
    with suppress(OSError):
        for line in _IPV6_ADDRESSES.read_text(encoding="ascii").splitlines():
            digits, _, _, scope, flags, interface = line.split()
            if interface != name or int(flags, 16) & _DAD_FAILED:
                continue
            if int(flags, 16) & _TENTATIVE:
                checked = True
                continue
            found.append((scope == _LINK_LOCAL, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))))
    if checked and not found:
        raise UnavailableError(f"the IPv6 address of the interface {name!r} is still being checked: wait a second")
    return min(found)[1] if found else None


class Groups(msgspec.Struct, frozen=True):
    """The multicast addresses of one run."""

    interface: Interface
    port: int
    base: int

    def of_cell(self, cell: Cell) -> str:
        return self._address(2 * cell)

    def of_node(self, node: NodeNumber) -> str:
        return self._address(2 * node + 1)

    def _address(self, number: int) -> str:
        if self.interface.ip == 4:
            return socket.inet_ntoa((GROUP_FIRST + (self.base + number) % GROUPS).to_bytes(4, "big"))
        return socket.inet_ntop(socket.AF_INET6, GROUP6_PREFIX + struct.pack(">II", self.base, number))

    def reached_at(self, group: str) -> SocketAddress:
        return (group, self.port) if self.interface.ip == 4 else (group, self.port, 0, self.interface.index)

    def open_socket(self) -> socket.socket:
        """A socket on the port of the run that sends on the interface and hears the groups it joins, and no others."""
        opened = socket.socket(self.interface.family, socket.SOCK_DGRAM)
        index = self.interface.index
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.interface.ip == 4:
            opened.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
            opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("4x4xi", index))
        else:
            opened.setsockopt(socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        opened.bind(("", self.port))
        return opened

    def packet_bytes(self, member: socket.socket) -> int:
        """Of a datagram that the interface takes in one packet."""
        try:
            return mtu_of(self.interface.name, member) - _HEAD_BYTES[self.interface.ip]
        except OSError as error:
            raise self._gone(error) from None

    def join(self, member: socket.socket, group: str) -> None:
        self._change(member, group, socket.IP_ADD_MEMBERSHIP, socket.IPV6_JOIN_GROUP)

    def leave(self, member: socket.socket, group: str) -> None:
        self._change(member, group, socket.IP_DROP_MEMBERSHIP, socket.IPV6_LEAVE_GROUP)

    def _change(self, member: socket.socket, group: str, how4: int, how6: int) -> None:
        try:
            self._membership(member, group, how4, how6)
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise
            raise self._gone(error) from None

    def _gone(self, error: OSError) -> UnavailableError:
        return UnavailableError(f"the interface {self.interface.name!r} is gone ({error.strerror})")

    def _membership(self, member: socket.socket, group: str, how4: int, how6: int) -> None:
        index = self.interface.index
        if self.interface.ip == 4:
            member.setsockopt(socket.IPPROTO_IP, how4, struct.pack("4s4xi", socket.inet_aton(group), index))
        else:
            packed = socket.inet_pton(socket.AF_INET6, group)
            member.setsockopt(socket.IPPROTO_IPV6, how6, packed + struct.pack("I", index))


def draw_groups(interface: Interface, token: bytes) -> Groups:
    """The groups of a run, on a port that nobody else uses now; UnavailableError where multicast does not work."""
    drawn = int.from_bytes(token, "big")
    for step in range(PORT_TRIES):
        port = PORT_FIRST + (drawn + step) % PORTS
        if _is_free(interface, port):
            groups = Groups(interface, port, (drawn >> 16) % GROUPS)
            _try(groups)
            return groups
    raise UnavailableError(f"none of {PORT_TRIES} UDP ports from {PORT_FIRST + drawn % PORTS} on is free")


def _is_free(interface: Interface, port: int) -> bool:
    with socket.socket(interface.family, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind(("", port))
        except OSError:
            return False
    return True


def _try(groups: Groups) -> None:
    """Send a datagram to a group of the run and hear it, before anybody else listens there."""
    group = groups.of_cell(0)
    with groups.open_socket() as tried:
        try:
            groups.join(tried, group)
            tried.sendto(b"", groups.reached_at(group))
            tried.settimeout(ECHO_S_MAX)
            tried.recv(1)
        except OSError as error:
            raise UnavailableError(_no_multicast(groups.interface, error)) from None


def _no_multicast(interface: Interface, error: OSError) -> str:
    problem = f"the interface {interface.name!r} carries no IPv{interface.ip} multicast ({error.strerror or error})"
    if interface.ip == 6 and interface.name == LOOPBACK:
        return f"{problem}; `ip -6 route add local ff00::/8 dev lo table local` (as root) makes it"
    return f"{problem}; see `ip link` and `ip route`"
