"""Turns what a machine asked for into the local events that a history is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from castbed import actions as do
from castbed.actions import Action
from castbed.history import Kind, LocalEvent
from castbed.values import Message, NodeNumber


def _about(kind: Kind, node: NodeNumber, at: int, message: Message, **more: Any) -> LocalEvent:
    return LocalEvent(
        node, at, kind, message.group, message.mid, message.parent,
        size=len(message.payload), digest=crc32(message.payload), **more,
    )  # fmt: skip


def _submitted(node: NodeNumber, at: int, action: do.Accept) -> LocalEvent:
    return _about(Kind.SUBMIT, node, at, action.message, to=action.message.to)


def _refused(node: NodeNumber, at: int, action: do.Refuse) -> LocalEvent:
    return _about(Kind.REFUSE, node, at, action.message, text=action.reason)


def _held(node: NodeNumber, at: int, action: do.Hold) -> LocalEvent:
    return _about(Kind.HOLD, node, at, action.message, waiting_for=action.waiting_for)


def delivered(node: NodeNumber, at: int, action: do.Deliver) -> LocalEvent:
    """The record of a delivery."""
    return _about(Kind.DELIVER, node, at, action.message)


def _installed(node: NodeNumber, at: int, action: do.Install) -> LocalEvent:
    view = action.view
    return LocalEvent(
        node, at, Kind.VIEW, view.group, number=view.number, members=view.members, stations=view.stations,
        local=view.local,
    )  # fmt: skip


def _joined(node: NodeNumber, at: int, action: do.Join) -> LocalEvent:
    return LocalEvent(node, at, Kind.JOIN, action.group)


def _left(node: NodeNumber, at: int, action: do.Leave) -> LocalEvent:
    return LocalEvent(node, at, Kind.LEAVE, action.group)


def _noted(node: NodeNumber, at: int, action: do.Note) -> LocalEvent:
    return LocalEvent(node, at, Kind.NOTE, action.group, action.about, text=action.what)


def _gauged(node: NodeNumber, at: int, action: do.Gauge) -> LocalEvent:
    return LocalEvent(node, at, Kind.GAUGE, number=action.value, text=action.what)


_RECORDED: dict[type[Action], Callable[[NodeNumber, int, Any], LocalEvent]] = {
    do.Accept: _submitted,
    do.Refuse: _refused,
    do.Hold: _held,
    do.Deliver: delivered,
    do.Install: _installed,
    do.Join: _joined,
    do.Leave: _left,
    do.Note: _noted,
    do.Gauge: _gauged,
}


def local_event(node: NodeNumber, at: int, action: Action) -> LocalEvent | None:
    """The record of `action`; None for those that leave frames or timers instead."""
    make = _RECORDED.get(action.__class__)
    return make(node, at, action) if make is not None else None
