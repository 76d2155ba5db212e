"""What a host has of each of its groups, and what it may deliver next.

Messages of a group are delivered without gaps in the order of `seq`, and those of all groups together in the order of
`number`: one waits until everything that the host's other groups had `before` it is delivered. What a group that was
joined meanwhile had before the last delivery is passed over: it was sent before the host was a member.

A bundle waits, and goes, as one: `seq` and `number` are those of its first message.
"""

from __future__ import annotations

from collections.abc import Iterator

from castbed import Group
from castbed_plugins.eomp.repaired.bundles import count_of
from castbed_plugins.eomp.repaired.packets import AnyNumbered, AnyRepeat, Ranges
from castbed_plugins.eomp.vectors import Vector, packed

RANGES_MAX = 32  # of early numbers in a report; what lies behind them is repeated needlessly at worst


class Inbox:
    """`last` is what was delivered, `early` what waits, `announced` the highest number heard of, each by group."""

    def __init__(self, ahead_max: int) -> None:
        self.last: dict[Group, int] = {}
        self.early: dict[Group, dict[int, AnyNumbered | AnyRepeat]] = {}
        self.announced: dict[Group, int] = {}
        self.position = 0
        self.waiting = 0
        self._ahead_max = ahead_max

    def enter(self, group: Group, start: int) -> None:
        """The messages of the group after `start` are wanted."""
        self.forget(group)
        self.last[group] = start

    def forget(self, group: Group) -> None:
        self.last.pop(group, None)
        self.announced.pop(group, None)
        self.waiting -= len(self.early.pop(group, ()))

    def announce(self, sent: Vector) -> None:
        """So much was sent."""
        for group, number in sent:
            if group in self.last:
                self.announced[group] = max(number, self.announced.get(group, 0))

    def has(self, packet: AnyNumbered | AnyRepeat) -> bool:
        return packet.seq <= self.last[packet.group] or packet.seq in self.early.get(packet.group, ())

    def keep(self, packet: AnyNumbered | AnyRepeat) -> bool:
        """Take a message of a group that is wanted; False if it lies too far ahead."""
        group, seq = packet.group, packet.seq
        self.announce((*packet.before, (group, seq + count_of(packet) - 1)))
        if seq > self.last[group] + self._ahead_max:
            return False
        self.early.setdefault(group, {})[seq] = packet
        self.waiting += 1
        return True

    def next_ones(self) -> Iterator[AnyNumbered | AnyRepeat]:
        """What can be delivered now, in order; each counts as delivered from then on."""
        while self.waiting:
            found = [packet for packet in map(self._first, sorted(self.early)) if packet is not None]
            if not found:
                return
            packet = min(found, key=lambda packet: packet.number)
            del self.early[packet.group][packet.seq]
            self.waiting -= 1
            behind_first = count_of(packet) - 1
            self.last[packet.group] = packet.seq + behind_first
            if packet.number > self.position:
                self.position = packet.number + behind_first
                yield packet

    def _first(self, group: Group) -> AnyNumbered | AnyRepeat | None:
        packet = self.early[group].get(self.last[group] + 1)
        return packet if packet is not None and self.is_next(packet) else None

    def is_next(self, packet: AnyNumbered | AnyRepeat) -> bool:
        """Whether everything that other groups of this host had before is delivered."""
        last = self.last
        return all(last.get(group, number) >= number for group, number in packet.before)

    def lacks(self) -> bool:
        """Whether something was heard of that is not delivered."""
        return self.waiting > 0 or any(number > self.last[group] for group, number in self.announced.items())

    def vector(self) -> Vector:
        return packed(self.last)

    def lacking(self) -> Vector:
        """Up to where something was heard of, in the groups of which something is lacking."""
        return packed({group: number for group, number in self.announced.items() if number > self.last[group]})

    def ranges(self) -> Ranges:
        """The lowest ranges of numbers that wait."""
        found: list[tuple[Group, int, int]] = []
        for group, numbers in sorted(self.early.items()):
            for number in sorted(numbers):
                end = number + count_of(numbers[number]) - 1
                if found and found[-1][0] == group and found[-1][2] == number - 1:
                    found[-1] = group, found[-1][1], end
                elif len(found) == RANGES_MAX:
                    return tuple(found)
                else:
                    found.append((group, number, end))
        return tuple(found)
