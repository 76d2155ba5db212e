"""EOMP repaired: the core agrees by a replicated log, stations fail over, hosts keep what they need, all is bounded."""

from castbed_plugins.eomp.repaired.coordinator import RepairedCoordinator
from castbed_plugins.eomp.repaired.host import RepairedHost
from castbed_plugins.eomp.repaired.notices import Expelled, Missed
from castbed_plugins.eomp.repaired.packets import REPAIRED_PACKETS
from castbed_plugins.eomp.repaired.sequencer import RepairedSequencer
from castbed_plugins.eomp.repaired.station import RepairedStation

__all__ = [
    "REPAIRED_PACKETS",
    "Expelled",
    "Missed",
    "RepairedCoordinator",
    "RepairedHost",
    "RepairedSequencer",
    "RepairedStation",
]
