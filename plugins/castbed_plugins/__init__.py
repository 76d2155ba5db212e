"""The protocols that ship with Castbed, one folder per paper. This page registers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from castbed import ApplicationPlugin, Membership, Protocol, Workload, hookimpl

if TYPE_CHECKING:
    from castbed.registry import Register


@hookimpl
def castbed_protocols(register: Register[Protocol]) -> None:
    from castbed_plugins import eomp, m2mc, relm, sb

    register.add(eomp.PROTOCOL)
    register.add(m2mc.PROTOCOL)
    register.add(relm.PROTOCOL)
    register.add(sb.PROTOCOL)


@hookimpl
def castbed_memberships(register: Register[Membership]) -> None:
    from castbed_plugins import m2mc

    for membership in m2mc.MEMBERSHIPS:
        register.add(membership)


@hookimpl
def castbed_applications(register: Register[ApplicationPlugin]) -> None:
    from castbed_plugins import m2mc
    from castbed_plugins.eomp.editor import EDITOR
    from castbed_plugins.eomp.render import RENDER

    for application in (m2mc.CHAT, EDITOR, RENDER):
        register.add(application)


@hookimpl
def castbed_workloads(register: Register[Workload]) -> None:
    from castbed_plugins import m2mc

    register.add(m2mc.CHURN)
