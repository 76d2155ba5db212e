"""Machines that protocols are built from, each used as a part of a larger machine, and the checks that they share."""

from castbed.parts.anti_entropy import AntiEntropy, AntiEntropyOptions
from castbed.parts.cell_channel import CellOptions, CellRx, CellTx, GsmTiming
from castbed.parts.digests import Digest, Repair
from castbed.parts.repair_layer import RepairLayer, RepairOptions
from castbed.parts.replicated_log import LogOptions, ReplicatedLog
from castbed.parts.replicated_log_packets import LOG_PACKETS
from castbed.parts.validation import check_identity, check_message

__all__ = [
    "LOG_PACKETS",
    "AntiEntropy",
    "AntiEntropyOptions",
    "CellOptions",
    "CellRx",
    "CellTx",
    "Digest",
    "GsmTiming",
    "LogOptions",
    "Repair",
    "RepairLayer",
    "RepairOptions",
    "ReplicatedLog",
    "check_identity",
    "check_message",
]
