"""RelM in the reading of the EOMP paper: the protocol that EOMP is compared with."""

from castbed_plugins.relm.commands import Join, Leave
from castbed_plugins.relm.declaration import PROTOCOL
from castbed_plugins.relm.options import Options

__all__ = ["PROTOCOL", "Join", "Leave", "Options"]
