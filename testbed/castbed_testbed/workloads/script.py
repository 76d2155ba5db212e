"""`script`: who says or does what when, line by line, with replies that wait until their writer has seen the question.

    [workload]
    kind = "script"
    lines = [
        { node = "C", at = "10ms", say = "Did you visit Delhi?", label = "delhi" },
        { node = "B", reply_to = "delhi", say = "Yes" },
        { node = "C", at = "1s", do = "leave-group", with = { group = "1.C" } },
    ]

A line happens at `at` or later: when its node has been delivered the line named by `after` and the one named by
`reply_to`. Lines of one node happen in any order otherwise. A restarted node takes up the lines that lie ahead.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from castbed.application import Application, Setting
from castbed.declarations import Workload
from castbed.errors import ConfigurationError
from castbed.packets import Command, command_name
from castbed.units import Duration, convert
from castbed.values import Group, Message, Mid, parse_group


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"with_": "with"}):
    """One line of a script: something said (`say`) or a command (`do`, `with`)."""

    node: str
    at: Duration = Duration(0)
    say: str | None = None
    do: str | None = None
    with_: dict[str, Any] = {}
    group: str = "1"
    label: str = ""
    reply_to: str = ""
    after: str = ""
    to: list[str] | None = None


class ScriptOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lines, of all nodes."""

    lines: list[Line]


class Script(Application):
    """The lines of one node."""

    def __init__(self, setting: Setting, options: ScriptOptions) -> None:
        super().__init__(setting, options)
        _check(setting, options)
        name = setting.topology.name(self.me)
        self._mine = [(at, line) for at, line in enumerate(options.lines) if line.node == name]
        self._labelled = {_said(setting, line): line.label for line in options.lines if line.label}
        self._seen: dict[str, Mid] = {}
        self._waiting: list[tuple[int, Line]] = []

    def started(self) -> None:
        for at, line in self._mine:
            if line.at >= self.now:
                self.wake(at, line.at - self.now)

    def woken(self, name: Any) -> None:
        self._waiting.append((name, self.options.lines[name]))
        self._say_what_can_be_said()

    def delivered(self, message: Message) -> None:
        label = self._labelled.get((message.mid.sender, message.group, message.payload))
        if label is not None:
            self._seen[label] = message.mid
            self._say_what_can_be_said()

    def _say_what_can_be_said(self) -> None:
        ready = [entry for entry in self._waiting if self._is_ready(entry[1])]
        self._waiting = [entry for entry in self._waiting if entry not in ready]
        for at, line in ready:
            self._do(at, line)

    def _is_ready(self, line: Line) -> bool:
        return all(not label or label in self._seen for label in (line.reply_to, line.after))

    def _do(self, at: int, line: Line) -> None:
        if line.say is not None:
            number = self.setting.topology.number
            to = None if line.to is None else tuple(number(name) for name in line.to)
            self.submit(line.say.encode(), _group(self.setting, line, at), self._seen.get(line.reply_to), to)
        else:
            self.call(_command(self.setting, line, at))


def _said(setting: Setting, line: Line) -> tuple[int, Group, bytes]:
    group = parse_group(line.group, setting.topology.number)
    return setting.topology.number(line.node), group, (line.say or "").encode()


def _group(setting: Setting, line: Line, at: int) -> Group:
    try:
        return parse_group(line.group, setting.topology.number)
    except ValueError as error:
        raise ConfigurationError(f"workload.lines[{at}].group", str(error)) from None


def _command(setting: Setting, line: Line, at: int) -> Command:
    for command in setting.commands:
        if command_name(command) == line.do:
            return convert(line.with_, command, f"workload.lines[{at}].with")
    known = ", ".join(sorted(command_name(command) for command in setting.commands)) or "none"
    raise ConfigurationError(f"workload.lines[{at}].do", f"the protocol has no command {line.do!r} (it has: {known})")


def _check(setting: Setting, options: ScriptOptions) -> None:
    names = {node.name for node in setting.topology.nodes}
    labels = {line.label for line in options.lines if line.label}
    for at, line in enumerate(options.lines):
        path = f"workload.lines[{at}]"
        for key, name in [("node", line.node), *(("to", name) for name in line.to or [])]:
            if name not in names:
                raise ConfigurationError(f"{path}.{key}", f"there is no node {name!r}")
        if (line.say is None) == (line.do is None):
            raise ConfigurationError(path, "a line has either `say` or `do`")
        if line.at >= setting.duration:
            raise ConfigurationError(f"{path}.at", "is not within the duration of the experiment")
        for key in ("reply_to", "after"):
            label = getattr(line, key)
            if label and label not in labels:
                raise ConfigurationError(f"{path}.{key}", f"no line has the label {label!r}")
        _group(setting, line, at)
        if line.do is not None:
            _command(setting, line, at)
    _check_labels(setting, options)


def _check_labels(setting: Setting, options: ScriptOptions) -> None:
    """A label stands for one message, and who is delivered a message knows its label by what it says."""
    labels: set[str] = set()
    said = Counter(_said(setting, line) for line in options.lines if line.say is not None)
    for at, line in enumerate(options.lines):
        if not line.label:
            continue
        path = f"workload.lines[{at}].label"
        if line.say is None:
            raise ConfigurationError(path, "only what is said has a label")
        if line.label in labels:
            raise ConfigurationError(path, f"a second line with the label {line.label!r}")
        if said[_said(setting, line)] > 1:
            raise ConfigurationError(path, "another line of the node says the same, so nobody can tell which is which")
        labels.add(line.label)


SCRIPT = Workload("script", "Who says or does what when, line by line", Script, ScriptOptions)
