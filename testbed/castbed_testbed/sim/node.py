"""One simulated device: its machine, its programs, its timers, its storage and where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from castbed.actions import Action
from castbed.application import Application
from castbed.events import Event, TimerName
from castbed.machine import Machine
from castbed.values import NodeNumber


class Cell:
    """A piece of air: those who hear a transmission in it, in order of their numbers. Replaced, never changed."""

    __slots__ = ("_others", "air_free", "hearers")

    def __init__(self) -> None:
        self.air_free = 0
        self.hearers: tuple[SimNode, ...] = ()
        self._others: dict[SimNode, tuple[SimNode, ...]] = {}

    def enter(self, node: SimNode) -> None:
        self._replace((*self.hearers, node))

    def leave(self, node: SimNode) -> None:
        self._replace(self._without(node))

    def others(self, node: SimNode) -> tuple[SimNode, ...]:
        """Everybody in the cell but this node."""
        others = self._others.get(node)
        if others is None:
            others = self._others[node] = self._without(node)
        return others

    def _without(self, node: SimNode) -> tuple[SimNode, ...]:
        return tuple(hearer for hearer in self.hearers if hearer is not node)

    def _replace(self, hearers: tuple[SimNode, ...]) -> None:
        self.hearers = tuple(sorted(hearers, key=lambda hearer: hearer.number))
        self._others.clear()


class Timer:
    """A timer that runs; one that is no longer its node's timer of that name was cancelled or replaced."""

    __slots__ = ("name", "node")

    def __init__(self, node: SimNode, name: TimerName) -> None:
        self.node = node
        self.name = name


class SimNode:
    """The state of one device.

    `home` is the cell it is in or will be in when it is up, `cell` the one it hears now, `before` the one that it was
    in when it last went away.
    """

    __slots__ = (
        "air_free",
        "append",
        "before",
        "cell",
        "granting",
        "home",
        "life",
        "listeners",
        "machine",
        "name",
        "number",
        "programs",
        "role",
        "step",
        "stirred",
        "stored",
        "timers",
        "wire_free",
    )

    def __init__(self, number: NodeNumber, name: str, role: str, append: Callable[[bytes], None] | None) -> None:
        self.number = number
        self.name = name
        self.role = role
        self.append = append
        self.machine: Machine | None = None
        self.step: Callable[[Event, int], Sequence[Action]] = _nobody_home
        self.programs: list[Application] = []
        self.listeners: list[Application] = []
        self.stirred = False
        self.granting = False
        self.timers: dict[TimerName, Timer] = {}
        self.stored: dict[str, bytes] = {}
        self.life = -1
        self.cell: Cell | None = None
        self.home: Cell | None = None
        self.before: Cell | None = None
        self.air_free = 0
        self.wire_free = 0

    @property
    def up(self) -> bool:
        return self.machine is not None

    def boot(self, machine: Machine, programs: list[Application]) -> None:
        self.machine = machine
        self.step = machine.step
        self.programs = programs
        self.listeners = [program for program in programs if program.listens()]

    def halt(self) -> None:
        """Lose everything but the storage."""
        self.machine = None
        self.step = _nobody_home
        self.programs, self.listeners, self.stirred = [], [], False
        self.timers.clear()
        self.air_free = self.wire_free = 0


def _nobody_home(event: Event, now: int) -> Sequence[Action]:  # noqa: ARG001 (the signature of Machine.step)
    raise AssertionError("a node that is down was asked to take a step")
