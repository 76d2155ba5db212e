"""The log of one group, and its repair: learns from others while this process is a member, serves them ever after.

A process that left still owes the others its messages: the air may have lost every copy of what it sent last. So it goes
on answering digests, but sends none and takes in nothing.
"""

from __future__ import annotations

from castbed import Message
from castbed.parts import AntiEntropy


class GroupLog(AntiEntropy):
    """What one process knows of one group."""

    member = False

    def start(self) -> None:
        self.member = True
        super().start()

    def stop(self) -> None:
        self.member = False
        super().stop()

    def announce(self) -> None:
        if self.member:
            super().announce()

    def store(self, message: Message) -> bool:
        return self.member and super().store(message)
