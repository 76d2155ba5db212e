"""How long things take, as a value: fixed, or drawn from a distribution with the random source of its user."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from random import Random

from castbed.units import Duration, Written, show_duration

_KEYS: Mapping[str, tuple[str, ...]] = {
    "fixed": ("value",),
    "uniform": ("low", "high"),
    "exponential": ("low", "mean"),
}


class Delay(Written):
    """`"2ms"`, `{kind = "uniform", low = "1ms", high = "5ms"}` or `{kind = "exponential", low = "0ms", mean = "2ms"}`.

    An exponential delay is `low` plus a memoryless part, `mean` in all.
    """

    __slots__ = ("constant", "high", "kind", "low", "mean")

    def __init__(self, kind: str, low: int, high: int = 0, mean: int = 0) -> None:
        self.kind, self.low, self.high, self.mean = kind, low, high, mean
        self.constant = low if kind == "fixed" else None

    @classmethod
    def parse(cls, written: object) -> Delay:
        if isinstance(written, str):
            return cls("fixed", Duration.parse(written))
        if not isinstance(written, dict) or written.get("kind") not in list(_KEYS):
            raise ValueError(f'expected a duration such as "2ms" or a table with kind = {" | ".join(_KEYS)}')
        kind = written["kind"]
        unknown = sorted(written.keys() - {"kind", *_KEYS[kind]})
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r} in a {kind} delay (it has: {', '.join(_KEYS[kind])})")
        missing = [key for key in _KEYS[kind] if key not in written and key != "low"]
        if missing:
            raise ValueError(f"a {kind} delay needs the key {missing[0]!r}")
        values = {key: Duration.parse(written.get(key, "0ms")) for key in _KEYS[kind]}
        if kind == "fixed":
            return cls("fixed", values["value"])
        if values.get("high", values.get("mean", 0)) < values["low"]:
            raise ValueError(f"a {kind} delay cannot be below its low of {show_duration(values['low'])}")
        return cls(kind, values["low"], values.get("high", 0), values.get("mean", 0))

    def sample(self, random: Random) -> int:
        if self.kind == "fixed":
            return self.low
        if self.kind == "uniform":
            return self.low + int(random.random() * (self.high - self.low))
        return self.low - int(log(1.0 - random.random()) * (self.mean - self.low))

    @property
    def most(self) -> int:
        """Nothing is drawn but zero where this is zero."""
        return max(self.low, self.high, self.mean)

    def _values(self) -> tuple[str, int, int, int]:
        return self.kind, self.low, self.high, self.mean

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Delay) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"Delay({self.kind}, low={self.low}, high={self.high}, mean={self.mean})"
