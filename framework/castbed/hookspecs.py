"""All hooks of Castbed, on one page. Each is called once, when a registry is loaded, with the register to add to.

A plugin is a module (or object) behind an entry point of the group `castbed`:

    [project.entry-points.castbed]
    my-protocol = "my_package"

and implements the hooks it needs with `castbed.hookimpl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

from castbed.declarations import ApplicationPlugin, Check, Membership, Protocol, Transport, Workload

if TYPE_CHECKING:
    from castbed.registry import Register

PROJECT = "castbed"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def castbed_protocols(register: Register[Protocol]) -> None:
    """Add protocols: `register.add(Protocol(...))`."""


@hookspec
def castbed_memberships(register: Register[Membership]) -> None:
    """Add memberships, which install the views that protocols see."""


@hookspec
def castbed_transports(register: Register[Transport]) -> None:
    """Add transports, which carry experiments out."""


@hookspec
def castbed_checks(register: Register[Check]) -> None:
    """Add checks, which protocols may then name among their guarantees."""


@hookspec
def castbed_workloads(register: Register[Workload]) -> None:
    """Add workloads, which generate load in experiments."""


@hookspec
def castbed_applications(register: Register[ApplicationPlugin]) -> None:
    """Add applications, which run on top of a protocol."""
