"""Views, and deliveries in views (group-views, P6.1, P6.2, P6.7 to P6.9).

A node submits and delivers in the view that it installed last, for that group and since it last started. Two views are
the same if they have the same number and the same members. Numbers of local views mean nothing to other nodes: where a
group has local views, nothing is said about deliveries in views.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from castbed.history import History, LocalEvent
from castbed.properties.base import Violation, bounded, in_time, listed
from castbed.properties.facts import Delivery, Facts, Installed, ViewKey
from castbed.properties.reading import facts_of
from castbed.values import Group, NodeNumber


@bounded
def self_inclusion(history: History) -> Iterator[Violation]:
    """A member is in every view that it installs. Kind: `left-out`."""
    facts = facts_of(history)
    for node in sorted(facts.joiners & facts.views.keys()):
        for view in facts.views[node]:
            if node not in view.key[1]:
                words = f"{facts.name(node)} installed {_view(facts, view)}, which leaves it out."
                yield Violation("self_inclusion", words, (view.event,), "left-out")


@bounded
def view_monotonicity(history: History) -> Iterator[Violation]:
    """The numbers of the views of a group grow at each node, as long as it is up. Kinds: `repeated`, `backwards`."""
    facts = facts_of(history)
    for node in sorted(facts.views):
        for before, after in _successive(facts, node):
            if after.key[0] <= before.key[0]:
                words = f"{facts.name(node)} installed {_view(facts, after)} after {_view(facts, before)}."
                kind = "repeated" if after.key[0] == before.key[0] else "backwards"
                yield Violation("view_monotonicity", words, (before.event, after.event), kind)


@bounded
def sending_view_delivery(history: History) -> Iterator[Violation]:
    """A message is delivered in the view in which it was submitted. Kinds: `other-view`, `before-any-view`."""
    facts = facts_of(history)
    for delivery in _deliveries_in_views(facts):
        submission = facts.submissions.get(delivery.number)
        if submission is None or submission.view is None or _key(submission.view) == _key(delivery.view):
            continue
        events = [*_events(submission.view, delivery.view), submission.event, delivery.event]
        words = (
            f"{facts.name(submission.event.node)} submitted {facts.text(delivery.number)} in "
            f"{_view(facts, submission.view)}, {facts.name(delivery.event.node)} delivered it in "
            f"{_view(facts, delivery.view)}."
        )
        kind = "before-any-view" if delivery.view is None else "other-view"
        yield Violation("sending_view_delivery", words, in_time(*events), kind)


@bounded
def same_view_delivery(history: History) -> Iterator[Violation]:
    """All who deliver a message deliver it in the same view. Kind: `other-view`."""
    facts = facts_of(history)
    first: dict[int, Delivery] = {}
    for delivery in _deliveries_in_views(facts):
        shown = first.setdefault(delivery.number, delivery)
        if _key(shown.view) != _key(delivery.view):
            words = (
                f"{facts.name(shown.event.node)} delivered {facts.text(delivery.number)} in "
                f"{_view(facts, shown.view)}, {facts.name(delivery.event.node)} in {_view(facts, delivery.view)}."
            )
            events = in_time(*_events(shown.view, delivery.view), shown.event, delivery.event)
            yield Violation("same_view_delivery", words, events, "other-view")


@bounded
def virtual_synchrony(history: History) -> Iterator[Violation]:
    """Who go together from one view to the next delivered the same messages in the first one. Kind: `missing`.

    Only messages that address both nodes count.
    """
    facts = facts_of(history)
    by_view = _by_view(facts)
    for passages in _passages(facts).values():
        delivered = [(before, after, by_view.get(before.place, {})) for before, after in passages]
        holders = {number: (view, got[number]) for view, _, got in reversed(delivered) for number in got}
        for before, after, got in delivered:
            for number in sorted(holders.keys() - got.keys()):
                submission = facts.submissions.get(number)
                if submission is None or facts.is_for(submission, before.event.node):
                    yield _not_synchronous(facts, number, *holders[number], before, after)


def _not_synchronous(
    facts: Facts, number: int, held: Installed, delivery: Delivery, before: Installed, after: Installed
) -> Violation:
    words = (
        f"{facts.name(delivery.event.node)} delivered {facts.text(number)} in {_view(facts, before)}, "
        f"{facts.name(before.event.node)} did not, and both went on to {_view(facts, after)}."
    )
    events = in_time(held.event, before.event, delivery.event, after.event)
    return Violation("virtual_synchrony", words, events, "missing")


@bounded
def convergent_views(history: History) -> Iterator[Violation]:
    """At the end all who are present in a group have the same members in their view: who joined and has not left.

    A node that crashed or is away may be listed or not. Kinds: `no-view`, `different`, `absent-member`, `not-a-member`.
    """
    facts = facts_of(history)
    groups = {view.event.group for views in facts.views.values() for view in views}
    for group in sorted(groups):
        present = sorted(facts.present[group])
        shown: Installed | None = None
        for node in present:
            view = facts.last_views.get((node, group))
            if view is None:
                words = f"{facts.name(node)} has no view of group {facts.group_text(group)} at the end."
                joined = facts.memberships[node, group][-1].joined
                yield Violation("convergent_views", words, (joined,), "no-view")
                continue
            shown = shown or view
            yield from _diverging(facts, group, shown, view)


def _diverging(facts: Facts, group: Group, shown: Installed, view: Installed) -> Iterator[Violation]:
    """What is wrong with a node's last view; `shown` is that of another node."""
    members = view.key[1]
    who, what = facts.name(view.event.node), _view(facts, view)
    if members != shown.key[1]:
        words = f"At the end {facts.name(shown.event.node)} is in {_view(facts, shown)} and {who} in {what}."
        yield Violation("convergent_views", words, in_time(shown.event, view.event), "different")
    absent = facts.present[group] - members
    if absent:
        words = f"At the end {who} is in {what}, without {_names(facts, absent)}, present in the group."
        joins = [facts.memberships[node, group][-1].joined for node in sorted(absent)]
        yield Violation("convergent_views", words, in_time(*joins, view.event), "absent-member")
    strangers = members - facts.not_left[group]
    if strangers:
        words = f"At the end {who} is in {what}, with {_names(facts, strangers)}, not in the group."
        yield Violation("convergent_views", words, (view.event,), "not-a-member")


# --- looking at views ----------------------------------------------------------------------------------------------


def _successive(facts: Facts, node: NodeNumber) -> Iterator[tuple[Installed, Installed]]:
    """Views of one group that a node installed directly after each other in one life."""
    lives: dict[tuple[Group, int], list[Installed]] = defaultdict(list)
    for view in facts.views[node]:
        lives[view.event.group, view.life].append(view)
    for views in lives.values():
        yield from pairwise(views)


def _passages(facts: Facts) -> dict[tuple[Group, ViewKey, ViewKey], list[tuple[Installed, Installed]]]:
    """Who went from which view to which, by group."""
    found: dict[tuple[Group, ViewKey, ViewKey], list[tuple[Installed, Installed]]] = defaultdict(list)
    for node in sorted(facts.views):
        for before, after in _successive(facts, node):
            group = before.event.group
            if group not in facts.local_groups:
                found[group, before.key, after.key].append((before, after))
    return found


def _by_view(facts: Facts) -> dict[int, dict[int, Delivery]]:
    """What was delivered in which view, by the place of the view."""
    found: dict[int, dict[int, Delivery]] = defaultdict(dict)
    for delivery in _deliveries_in_views(facts):
        if delivery.view is not None:
            found[delivery.view.place].setdefault(delivery.number, delivery)
    return found


def _deliveries_in_views(facts: Facts) -> Iterator[Delivery]:
    """The deliveries in groups that have views, none of them local, at nodes that ever join a group."""
    groups = {view.event.group for views in facts.views.values() for view in views} - facts.local_groups
    for node in sorted(facts.joiners & facts.deliveries.keys()):
        yield from (delivery for delivery in facts.deliveries[node] if delivery.event.group in groups)


def _key(view: Installed | None) -> ViewKey | None:
    return view.key if view is not None else None


def _events(*views: Installed | None) -> list[LocalEvent]:
    return [view.event for view in views if view is not None]


def _view(facts: Facts, view: Installed | None) -> str:
    """`view 2 (A, B and C)`."""
    return "no view" if view is None else f"view {view.key[0]} ({_names(facts, view.key[1])})"


def _names(facts: Facts, nodes: Iterable[NodeNumber]) -> str:
    return listed(facts.name(node) for node in sorted(nodes))
