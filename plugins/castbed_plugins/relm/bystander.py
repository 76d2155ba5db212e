"""The sequencer of the three-tier model. RelM orders nothing between sources (M2), so it has nothing to do."""

from __future__ import annotations

from castbed import Machine, Message


class Bystander(Machine):
    """A node that takes no part; it also stands below the stations, for what applications may not ask of them."""

    def submitted(self, message: Message) -> None:
        """M4: sources are static hosts, and here those are the supervisors."""
        self.refuse(message, "only supervisor hosts are sources")
