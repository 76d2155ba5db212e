"""The notation of the vectors: `B3(B2)` is message B3 in reply to B2, `B1(R)` answers nothing; nodes are letters."""

from __future__ import annotations

import re
from collections.abc import Iterable

from castbed import Message, Mid
from castbed_plugins.sb.ordering import OrderingSteps


def mid(text: str) -> Mid | None:
    return None if text == "R" else Mid(ord(text[0]) - ord("A") + 1, int(text[1:]))


def message(text: str) -> Message:
    found = re.fullmatch(r"([A-Z]\d+)\(([A-Z]\d*)\)", text)
    assert found is not None, text
    own = mid(found[1])
    assert own is not None
    return Message(own, payload=text.encode(), parent=mid(found[2]))


def messages(text: str) -> list[Message]:
    return [message(word) for word in text.replace(",", " ").split()]


def show(found: Iterable[Message]) -> str:
    return " ".join(_text(one.mid) for one in found)


def lists(ordering: OrderingSteps) -> str:
    """`A:[1-1] B:[1-4]`."""
    shown = []
    for (sender, _), numbers in sorted(ordering.delivered.items()):
        shown.append(f"{_text(Mid(sender, 0))[0]}:" + "".join(f"[{lo}-{hi}]" for lo, hi in numbers.intervals()))
    return " ".join(shown)


def _text(one: Mid) -> str:
    return one.text(lambda number: chr(ord("A") + number - 1))
