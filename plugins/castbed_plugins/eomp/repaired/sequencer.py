"""The sequencer of repaired EOMP: the core node that leads the log from the beginning, and serves no stations."""

from __future__ import annotations

from castbed_plugins.eomp.repaired.core import CoreNode


class RepairedSequencer(CoreNode):
    """Numbers while it leads; after a crash it comes back as one of the core that follows."""
