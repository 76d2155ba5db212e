"""All properties that the framework brings, by name."""

from __future__ import annotations

from collections.abc import Iterable

from castbed.declarations import Check
from castbed.errors import ConfigurationError
from castbed.history import History
from castbed.properties.base import Violation
from castbed.properties.basic import integrity, no_duplication
from castbed.properties.ordering import causal, fifo, semantic
from castbed.properties.reliable import agreement, exactly_once, liveness, recovery, validity
from castbed.properties.total import acyclic_total, total
from castbed.properties.views import (
    convergent_views,
    same_view_delivery,
    self_inclusion,
    sending_view_delivery,
    view_monotonicity,
    virtual_synchrony,
)
from castbed.properties.waiting import no_needless_wait

CHECKS: tuple[Check, ...] = (
    Check("integrity", "Only what was submitted is delivered, unaltered, to members", integrity),
    Check("no_duplication", "Nobody delivers a message twice", no_duplication),
    Check("agreement", "Members that stay deliver the same messages", agreement),
    Check("validity", "A member that stays delivers its own messages", validity),
    Check("exactly_once", "Members that stay deliver every message exactly once", exactly_once),
    Check("fifo", "Messages of one submitter are delivered in the order of submission", fifo),
    Check("causal", "What happened before a message is delivered before it", causal),
    Check("semantic", "A message is delivered after the message that it answers", semantic),
    Check("total", "Any two members deliver the messages of both in the same order", total),
    Check("acyclic_total", "The orders of all members together have no circle", acyclic_total),
    Check("liveness", "At the end nothing is held and nothing is undelivered", liveness),
    Check("no_needless_wait", "A message waits only for what it depends on", no_needless_wait),
    Check("recovery", "Members present at the end have caught up with each other", recovery),
    Check("self_inclusion", "A member is in every view that it installs", self_inclusion),
    Check("view_monotonicity", "The numbers of a member's views grow", view_monotonicity),
    Check("sending_view_delivery", "A message is delivered in the view it was submitted in", sending_view_delivery),
    Check("same_view_delivery", "A message is delivered in the same view everywhere", same_view_delivery),
    Check("virtual_synchrony", "Members that change views together delivered the same before", virtual_synchrony),
    Check("convergent_views", "At the end all members have the same, right view", convergent_views),
)


def check(history: History, names: Iterable[str]) -> dict[str, list[Violation]]:
    """The violations of each named property; an unknown name is a configuration error."""
    known = {check.name: check for check in CHECKS}
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise ConfigurationError("checks", f"there is no property {name!r} (there are: {', '.join(known)})")
    return {name: known[name].violations(history) for name in wanted}
