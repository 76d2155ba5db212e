"""RelM in the reading of the EOMP paper: the protocol that EOMP is compared with."""

from castbed.commands import Join, Leave
from castbed_plugins.relm.declaration import PROTOCOL
from castbed_plugins.relm.options import Options

__all__ = ["PROTOCOL", "Join", "Leave", "Options"]
