"""EOMP: exactly once, totally ordered multicast to mobile hosts over stations, coordinators and a sequencer."""

from castbed.commands import Join, Leave
from castbed_plugins.eomp.coordinator import Coordinator
from castbed_plugins.eomp.declaration import PROTOCOL
from castbed_plugins.eomp.host import Host
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.sequencer import Sequencer
from castbed_plugins.eomp.station import Station

__all__ = ["PROTOCOL", "Coordinator", "Host", "Join", "Leave", "Options", "Sequencer", "Station"]
