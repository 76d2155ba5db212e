"""What programs wish, as hosts carry it out: the same in the simulator and on real networks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from castbed.application import Call, Submit, Wake, Wish
from castbed.errors import ContractError
from castbed.events import Asked, Event, Submitted, SubmittedTogether
from castbed.values import Message


def in_steps(wishes: Iterable[Wish], name: str) -> Iterator[Event | Wake]:
    """What the machine of the node is shown, in order, and the wakes in between.

    Messages between which nothing else is wished are submitted together.
    """
    together: list[Message] = []
    for wish in wishes:
        if isinstance(wish, Submit):
            together.append(wish.message)
            continue
        if together:
            yield _submission(together)
            together = []
        yield _other(wish, name)
    if together:
        yield _submission(together)


def _submission(messages: list[Message]) -> Event:
    return SubmittedTogether(messages) if len(messages) > 1 else Submitted(messages[0])


def _other(wish: Wish, name: str) -> Event | Wake:
    if isinstance(wish, Call):
        return Asked(wish.command)
    assert isinstance(wish, Wake)
    if wish.delay < 0:
        raise ContractError(f"an application on {name} wants to be woken in the past")
    return wish
