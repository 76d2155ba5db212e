"""How long to wait for an answer: as long as answers take, longer after each silence, never all at the same moment.

Waits grow by half only, not twofold: a radio that loses one packet in four is no reason to say less.
"""

from __future__ import annotations

from castbed import Context

SILENCES_MAX = 32
GROWTH = (3, 2)
JITTER = 4  # a wait is up to a fourth longer than computed


class Patience:
    """The wait before something is said again (V. Jacobson's estimator; times by P. Karn's rule).

    `first` is what the paper waits: the least, and the beginning. `most` is where growing ends, unless answers take
    longer than that.
    """

    def __init__(self, first: int, most: int, context: Context) -> None:
        self._first = first
        self._most = most
        self._random = context.random
        self._mean = 0
        self._deviation = 0
        self._silences = 0

    def answered(self, after: int) -> None:
        """Something that was said once was answered after this time."""
        self._silences = 0
        if not self._mean:
            self._mean, self._deviation = after, after // 2
            return
        self._deviation += (abs(after - self._mean) - self._deviation) // 4
        self._mean += (after - self._mean) // 8

    def answered_at_last(self) -> None:
        """Something that was said several times was answered: nobody knows how soon, but somebody is there."""
        self._silences //= 2

    def not_answered(self) -> None:
        self._silences = min(self._silences + 1, SILENCES_MAX)

    def begin_anew(self) -> None:
        """Silences of the past say nothing about here and now."""
        self._silences = 0

    def wait(self) -> int:
        usual = max(self._first, self._mean + 4 * self._deviation)
        grown = usual * GROWTH[0] ** self._silences // GROWTH[1] ** self._silences
        wait: int = min(grown, max(self._most, usual))
        return wait + self._random.randrange(wait // JITTER + 1)
