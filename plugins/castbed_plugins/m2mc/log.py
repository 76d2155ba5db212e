"""The log of one group, and its repair: learns from others while this process is a member, serves them ever after.

A process that left still owes the others its messages: the air may have lost every copy of what it sent last. So it
goes on answering digests, but sends none and takes in nothing.
"""

from __future__ import annotations

from castbed import Message, Packet
from castbed.parts import AntiEntropy, Repair


class GroupLog(AntiEntropy):
    """What one process knows of one group."""

    member = False

    def start(self, soon: bool = True) -> None:
        self.member = True
        super().start(soon)

    def stop(self) -> None:
        """Be no member any more; repairs that were asked for still go out."""
        self.member = False
        self.cancel_timer("digest")

    def store(self, message: Message) -> bool:
        return self.member and super().store(message)

    def broadcast(self, packet: Packet) -> None:
        if self.member or isinstance(packet, Repair):
            super().broadcast(packet)
