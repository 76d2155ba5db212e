"""How large a receive buffer may be: what the kernel can be asked for, and not more."""

from __future__ import annotations

import socket
from collections import Counter

import pytest

from castbed import ConfigurationError
from castbed.units import convert
from castbed_adapters.netns.options import NetnsOptions
from castbed_adapters.receive_buffer import RECEIVE_BUFFER_MAX
from castbed_adapters.receiving import make_room
from castbed_adapters.udp.options import UdpOptions
from castbed_adapters.wifi.options import WifiOptions


@pytest.mark.parametrize("options", [UdpOptions, WifiOptions, NetnsOptions])
def test_a_larger_buffer_than_a_kernel_can_be_asked_for_is_refused(options: type) -> None:
    wanted = {"interface": "lo"} if options is not NetnsOptions else {}
    assert convert({**wanted, "receive_buffer": "1023MiB"}, options).receive_buffer == RECEIVE_BUFFER_MAX
    with pytest.raises(ConfigurationError, match=r"^transport\.options\.receive_buffer: expected at most 1023MiB"):
        convert({**wanted, "receive_buffer": "2048MiB"}, options, "transport.options")


def test_the_largest_buffer_is_taken_as_it_is() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        make_room(receiver, RECEIVE_BUFFER_MAX, Counter())
