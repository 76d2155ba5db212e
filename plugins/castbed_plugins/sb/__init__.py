"""S_B ("semantically before") ordering: the protocol, and the ordering core that other protocols build on."""

from castbed_plugins.sb.declaration import PROTOCOL
from castbed_plugins.sb.literal import LiteralOrdering
from castbed_plugins.sb.options import Options
from castbed_plugins.sb.ordering import Ordering
from castbed_plugins.sb.packets import Data

__all__ = ["PROTOCOL", "Data", "LiteralOrdering", "Options", "Ordering"]
