"""Options of the transport `wifi`, apart from its sockets, so that listing plugins stays quick."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

from castbed.links import LinkOptions
from castbed.units import BitRate
from castbed_adapters.receive_buffer import ReceiveBuffer

SSID_BYTES_MAX = 32  # of the standard
_ADDRESS = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")

Megahertz = Annotated[int, msgspec.Meta(ge=2000, le=7200)]


class WifiOptions(LinkOptions, frozen=True, forbid_unknown_fields=True):
    """Which interface, and what it is made for the run.

    `interface` is for all nodes, `interfaces` says it by node. With `mode = "ethernet"` frames are broadcast on the
    interface as it is or, with an `ssid`, in the ad hoc cell (IBSS) of that name on `frequency` (MHz), whose `bssid`
    may be fixed, and whose broadcasts go out at `multicast_rate`. With `mode = "monitor"` 802.11 frames of the cell
    `bssid` are injected and captured; the interface is put into monitor mode on `frequency`, or is in it already.
    """

    interface: str = ""
    interfaces: dict[str, str] = msgspec.field(default_factory=dict)
    mode: Literal["ethernet", "monitor"] = "ethernet"
    ssid: str = ""
    frequency: Megahertz | None = None
    bssid: str = ""
    multicast_rate: BitRate | None = None
    receive_buffer: ReceiveBuffer = ReceiveBuffer(4 * 2**20)

    def __post_init__(self) -> None:
        if self.bssid and not _ADDRESS.fullmatch(self.bssid):
            raise ValueError("`bssid` is written like 02:ca:fe:ca:fe:40")
        if len(self.ssid.encode()) > SSID_BYTES_MAX:
            raise ValueError(f"`ssid` has at most {SSID_BYTES_MAX} bytes")
        if self.ssid and (self.mode == "monitor" or self.frequency is None):
            raise ValueError("`ssid` is for an ad hoc cell: it goes with a `frequency`, and not with monitor mode")
        if self.multicast_rate is not None and not self.ssid:
            raise ValueError("`multicast_rate` is of an ad hoc cell: it goes with an `ssid`")
        if not self.interface and not self.interfaces:
            raise ValueError("`interface` is required (or `interfaces`, by node)")
