"""Runs an application in the simulator and hands its programs over, for those who look at more than captures."""

from __future__ import annotations

from typing import Any

import msgspec

from castbed.application import Application, Setting
from castbed.declarations import ApplicationPlugin
from castbed.registry import Registry
from castbed.units import convert
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import NullRecorder
from castbed_testbed.report import HostReport
from castbed_testbed.sim.runner import simulate


class Played(msgspec.Struct, frozen=True):
    """What a run left: the program of each node by name, of its last life, and what the host counted."""

    programs: dict[str, Any]
    report: HostReport


def play(data: dict[str, Any], application: ApplicationPlugin, options: dict[str, Any], registry: Registry) -> Played:
    """Simulate an experiment, given as plain data, with this application on every node; nothing is captured."""
    plan = make_plan(load(data).experiment, registry)
    programs: dict[str, Any] = {}

    def build(setting: Setting, chosen: Any) -> Application:
        made = programs[plan.topology.name(setting.me)] = application.build(setting, chosen)
        return made

    watched = ApplicationPlugin(application.name, application.summary, build, application.options)
    chosen = convert(options, application.options, "application.options")
    report = simulate(msgspec.structs.replace(plan, programs=((watched, chosen), *plan.programs)), NullRecorder())
    return Played(programs, report)
