"""The paper's own data structures, kept for measuring what it claims: linked lists and a table, both searched in full.

Rows and list nodes that a search looks at are counted (`row_visits`, `node_visits`; spec, section 6). Each step
delivers what the indexed `Ordering` does. Among siblings the order may differ: this table reuses the first empty row
(spec 4.5), so a later sibling may come to stand before an earlier one; siblings are unrelated (SB-Q17).
"""

from __future__ import annotations

from castbed import Message, Mid
from castbed_plugins.sb.ordering import Numbers, OrderingSteps


class Node:
    """Numbers low..high inclusive have all been delivered."""

    __slots__ = ("following", "high", "low")

    def __init__(self, low: int, high: int, following: Node | None) -> None:
        self.low = low
        self.high = high
        self.following = following


class LinkedIntervals:
    """One list of the paper's Ordering List (*OL*), with its Algorithms 1 and 2 in the reading of SB-Q1 to Q6."""

    __slots__ = ("first", "node_visits")

    def __init__(self) -> None:
        self.first: Node | None = None
        self.node_visits = 0

    def __contains__(self, number: int) -> bool:
        previous, _ = self._around(number)
        return previous is not None and previous.high >= number

    def add(self, number: int) -> bool:
        """InsertInOL; False, and no change, when it was there already (SB-Q6)."""
        previous, following = self._around(number)
        if previous is not None and previous.high >= number:
            return False
        joins_previous = previous is not None and previous.high == number - 1
        joins_following = following is not None and following.low == number + 1
        if previous is not None and joins_previous:
            previous.high = number
            if following is not None and joins_following:
                previous.high, previous.following = following.high, following.following
        elif following is not None and joins_following:
            following.low = number
        else:
            self._put(Node(number, number, following), previous)
        return True

    def intervals(self) -> tuple[tuple[int, int], ...]:
        found: list[tuple[int, int]] = []
        node = self.first
        while node is not None:
            found.append((node.low, node.high))
            node = node.following
        return tuple(found)

    def _around(self, number: int) -> tuple[Node | None, Node | None]:
        """The last node that begins at or before the number, and the one after it."""
        previous, following = None, self.first
        while following is not None and following.low <= number:
            self.node_visits += 1
            previous, following = following, following.following
        return previous, following

    def _put(self, node: Node, previous: Node | None) -> None:
        if previous is None:
            self.first = node
        else:
            previous.following = node


class LiteralOrdering(OrderingSteps):
    """The held messages as the paper's table (*OSMT*): a row is a message or empty, every search starts at the top."""

    __slots__ = ("_rows", "row_visits")

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Message | None] = []
        self._table = self._rows
        self.row_visits = 0

    def held(self) -> list[Message]:
        """Everything that waits, in the order of the table."""
        return [row for row in self._rows if row is not None]

    def _new_numbers(self) -> Numbers:
        return LinkedIntervals()

    def _insert(self, message: Message) -> None:
        for at, row in enumerate(self._rows):
            if row is None:
                self._rows[at] = message
                return
        self._rows.append(message)

    def _take_first(self, parent: Mid) -> Message | None:
        for at, row in enumerate(self._rows):
            if row is not None and row.parent == parent:
                self.row_visits += at + 1
                self._rows[at] = None
                return row
        self.row_visits += len(self._rows)
        return None
