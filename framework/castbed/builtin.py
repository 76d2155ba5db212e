"""What the framework itself brings, as a plugin like any other: the static membership and all checks of the design."""

from __future__ import annotations

from castbed.declarations import Check, Membership
from castbed.hookspecs import hookimpl
from castbed.registry import Register


@hookimpl
def castbed_memberships(register: Register[Membership]) -> None:
    register.add(Membership("static", "The groups of the topology, which never change"))


@hookimpl
def castbed_checks(register: Register[Check]) -> None:
    from castbed.properties import CHECKS

    for check in CHECKS:
        register.add(check)
