"""What members of an S_B group send each other: nothing but the messages themselves (spec, section 3)."""

from __future__ import annotations

from castbed import Group, Message, Mid, Packet


class Data(Packet, frozen=True, tag=1):
    """One message; `parent` is the one that it answers, None for the root."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None

    @classmethod
    def of(cls, message: Message) -> Data:
        return cls(message.group, message.mid, message.payload, message.parent)

    @property
    def message(self) -> Message:
        return Message(self.mid, self.group, self.payload, self.parent)
