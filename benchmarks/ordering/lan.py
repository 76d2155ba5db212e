"""The network of all members: a namespace each, on one bridge in a namespace of its own.

The namespaces have no names. They vanish with the descriptors that this process holds and the processes inside, which
the kernel kills when this process ends, however it ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any

from castbed_adapters.netns.devices import WIRE, bring_loopback_up, lay_wires, wire_address
from castbed_adapters.netns.spaces import Space, become_able
from castbed_adapters.netns.syscalls import die_with_parent

INTERFACE = WIRE
END_S_MAX = 5.0


class Lan:
    """`members` namespaces on one bridge."""

    def __init__(self, members: int) -> None:
        self.members = range(members)
        self._spaces: list[Space] = []
        self._left = ExitStack()

    def __enter__(self) -> Lan:
        become_able()
        with ExitStack() as undo:
            hub = undo.enter_context(closing(Space()))
            self._spaces = [undo.enter_context(closing(Space())) for _ in self.members]
            for space in self._spaces:
                bring_loopback_up(space)
            lay_wires(hub, [(number + 1, self._spaces[number]) for number in self.members])
            self._left = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.close()

    def address(self, member: int) -> str:
        return wire_address(member + 1)

    def namespace(self, member: int) -> str:
        """The path of the member's namespace, for processes of this machine and as long as this one lives."""
        return f"/proc/{os.getpid()}/fd/{self._spaces[member].descriptor}"

    def start(self, member: int, command: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:
        """Start a program in the member's namespace; it hears no Ctrl-C of ours and does not outlive us."""
        begin = _beginning(self._spaces[member])
        return subprocess.Popen(command, preexec_fn=begin, start_new_session=True, bufsize=0, **more)


def _beginning(space: Space) -> Callable[[], None]:
    def begin() -> None:
        space.enter()
        die_with_parent(signal.SIGKILL)

    return begin


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask each of these processes to end, and kill those that do not in time."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        with process:
            try:
                process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()


def cpu_us(processes: Sequence[int]) -> float:
    """The processor time that these processes, with all their threads, have taken so far."""
    tick_us = 1e6 / os.sysconf("SC_CLK_TCK")
    return sum(_ticks(process) for process in processes) * tick_us


def _ticks(process: int) -> int:
    with open(f"/proc/{process}/stat", encoding="latin-1") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
