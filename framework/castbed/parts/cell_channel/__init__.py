"""The cellular channel of EOMP: a group page, one channel for all who heard it, frames one way, a release."""

from castbed.parts.cell_channel.options import GROUPS_MAX, PAYLOAD_BYTES_MAX, CellOptions
from castbed.parts.cell_channel.packets import FAMILY, PACKETS, Assign, Frame, Page, Release
from castbed.parts.cell_channel.receiver import (
    CHANNEL_LEFT,
    NO_ASSIGNMENT,
    RX_TRANSITIONS,
    CellRx,
    RxEvent,
    RxState,
)
from castbed.parts.cell_channel.timing import GsmTiming
from castbed.parts.cell_channel.transmitter import NO_CHANNEL, TX_TRANSITIONS, CellTx, TxEvent, TxState

__all__ = [
    "CHANNEL_LEFT",
    "FAMILY",
    "GROUPS_MAX",
    "NO_ASSIGNMENT",
    "NO_CHANNEL",
    "PACKETS",
    "PAYLOAD_BYTES_MAX",
    "RX_TRANSITIONS",
    "TX_TRANSITIONS",
    "Assign",
    "CellOptions",
    "CellRx",
    "CellTx",
    "Frame",
    "GsmTiming",
    "Page",
    "Release",
    "RxEvent",
    "RxState",
    "TxEvent",
    "TxState",
]
