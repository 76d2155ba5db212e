"""Sets of numbers kept as sorted, disjoint, never adjacent intervals: cheap when numbers come nearly in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class IntervalSet:
    """A set of integers stored as intervals; insert and lookup cost O(log intervals) comparisons."""

    __slots__ = ("_highs", "_lows")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []
        for low, high in sorted(intervals):
            if low > high:
                raise ValueError(f"interval {low}..{high} is empty")
            if self._highs and low <= self._highs[-1] + 1:
                self._highs[-1] = max(self._highs[-1], high)
            else:
                self._lows.append(low)
                self._highs.append(high)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._lows, number) - 1
        return at >= 0 and self._highs[at] >= number

    def add(self, number: int) -> bool:
        """Insert; False when it was there already."""
        lows, highs = self._lows, self._highs
        following = bisect_right(lows, number)
        previous = following - 1
        if previous >= 0 and highs[previous] >= number:
            return False
        joins_previous = previous >= 0 and highs[previous] == number - 1
        joins_following = following < len(lows) and lows[following] == number + 1
        if joins_previous and joins_following:
            highs[previous] = highs[following]
            del lows[following], highs[following]
        elif joins_following:
            lows[following] = number
        elif joins_previous:
            highs[previous] = number
        else:
            lows.insert(following, number)
            highs.insert(following, number)
        return True

    def remove(self, number: int) -> bool:
        """Take out, splitting an interval where needed; False when it was not there."""
        lows, highs = self._lows, self._highs
        at = bisect_right(lows, number) - 1
        if at < 0 or highs[at] < number:
            return False
        low, high = lows[at], highs[at]
        left = [(low, number - 1)] if low < number else []
        right = [(number + 1, high)] if number < high else []
        lows[at : at + 1] = [pair[0] for pair in left + right]
        highs[at : at + 1] = [pair[1] for pair in left + right]
        return True

    def intervals(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self._lows, self._highs, strict=True))

    def minus(self, other: IntervalSet) -> Iterator[int]:
        """The numbers that are here and not there, ascending."""
        for low, high in self.intervals():
            number = low
            while number <= high:
                at = bisect_right(other._lows, number) - 1
                if at >= 0 and other._highs[at] >= number:
                    number = other._highs[at] + 1
                    continue
                stop = other._lows[at + 1] - 1 if at + 1 < len(other._lows) else high
                yield from range(number, min(stop, high) + 1)
                number = min(stop, high) + 1

    def __iter__(self) -> Iterator[int]:
        for low, high in zip(self._lows, self._highs, strict=True):
            yield from range(low, high + 1)

    def __len__(self) -> int:
        return sum(self._highs) - sum(self._lows) + len(self._lows)

    def __bool__(self) -> bool:
        return bool(self._lows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSet) and self._lows == other._lows and self._highs == other._highs

    __hash__ = None  # type: ignore[assignment]

    def interval_count(self) -> int:
        return len(self._lows)

    def __repr__(self) -> str:
        return "IntervalSet(" + " ".join(f"[{low}-{high}]" for low, high in self.intervals()) + ")"
