"""A reliable broadcast below any broadcast protocol: numbers, gaps, asks, resends, heartbeats."""

from castbed.parts.repair_layer.layer import FAMILY, RepairLayer
from castbed.parts.repair_layer.options import RepairOptions
from castbed.parts.repair_layer.packets import Bygone, Carried, CarriedMessage, Heartbeat, Missing

__all__ = [
    "FAMILY",
    "Bygone",
    "Carried",
    "CarriedMessage",
    "Heartbeat",
    "Missing",
    "RepairLayer",
    "RepairOptions",
]
