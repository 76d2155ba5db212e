"""What the kernel knows of an interface, by its name."""

from __future__ import annotations

import fcntl
import socket
from struct import Struct

_SIOCGIFFLAGS, _SIOCGIFMTU = 0x8913, 0x8921
_REQUEST = Struct("16sI12x")


def flags_of(name: str, asking: socket.socket) -> int:
    """Asked through a socket, in whose namespace the interface is; OSError if there is none."""
    return _asked(asking, name, _SIOCGIFFLAGS)


def mtu_of(name: str, asking: socket.socket) -> int:
    """Asked through a socket, in whose namespace the interface is; OSError if there is none."""
    return _asked(asking, name, _SIOCGIFMTU)


def _asked(asking: socket.socket, name: str, what: int) -> int:
    answer = fcntl.ioctl(asking.fileno(), what, _REQUEST.pack(name.encode(), 0))
    return int(_REQUEST.unpack(answer)[1])
