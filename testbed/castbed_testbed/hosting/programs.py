"""The programs on one node: they are shown what happens, and what they wish is granted before anything else happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from castbed.application import Application, Wake
from castbed.errors import ContractError
from castbed.events import Event
from castbed.links import Links
from castbed.values import Message
from castbed_testbed.hosting.agenda import Agenda
from castbed_testbed.wishes import in_steps

STEPS_AT_ONE_TIME_MAX = 100_000  # an application that answers itself for ever within one instant ends here
CONGESTED_WAIT_NS = 1_000_000  # how long an application waits before the links are asked again
BEHIND_NS_MAX = 1_000_000_000  # what a program may catch up with


class Host(Protocol):
    """The node that programs run on."""

    now: int

    def tick(self) -> None:
        """Bring `now` up to date."""

    def step(self, event: Event) -> None:
        """Show the machine an event."""


class Programs:
    """All programs of one life of one node; `stirred` says that some may wish something.

    `listeners` are those that the host shows deliveries to, `senders` those that want to know what was accepted.
    """

    def __init__(self, programs: list[Application], name: str, host: Host, agenda: Agenda, links: Links) -> None:
        self.stirred = False
        self._programs = programs
        self.listeners = [program for program in programs if program.listens()]
        self.senders = [program for program in programs if _follows_up(program)]
        self._name = name
        self._host = host
        self._agenda = agenda
        self._links = links
        self._granting = False
        self._awake_since = 0

    def start(self) -> None:
        for program in self._programs:
            self._show(program, program.started)
        self.grant()

    def accepted(self, message: Message) -> None:
        for program in self.senders:
            self._show(program, program.accepted, message)

    def tell(self, handler: str, *what: Any) -> None:
        """Call this handler of every program."""
        for program in self._programs:
            self._show(program, getattr(program, handler), *what)

    def _show(self, program: Application, handler: Callable[..., None], *what: Any) -> None:
        program.now = self._host.now
        handler(*what)
        self.stirred = True

    def grant(self) -> None:
        """Carry out what programs wish, and what they wish because of that."""
        if self._granting:
            return
        self._granting = True
        left = STEPS_AT_ONE_TIME_MAX
        while self.stirred:
            self.stirred = False
            for program in self._programs:
                for step in in_steps(program.take_wishes(), self._name):
                    if isinstance(step, Wake):
                        self._wake_later(program, step)
                    else:
                        self._host.step(step)
            left -= 1
            if not left:
                raise ContractError(f"an application on {self._name} never stops answering itself")
        self._granting = False

    def _wake_later(self, program: Application, wish: Wake) -> None:
        due = (self._awake_since or self._host.now) + wish.delay
        self._agenda.at(due, self._wake, (program, wish.name, due))

    def _wake(self, wake: tuple[Application, Any, int]) -> None:
        """Wake a program, unless the links ask it to wait.

        The wakes that it wishes then count from when it should have been woken, so that it keeps its pace although
        every wake is a little late; not so when it has fallen far behind.
        """
        program, name, due = wake
        self._host.tick()
        now = self._host.now
        if self._links.congested:
            self._links.counters["waited"] += 1
            self._agenda.at(now + CONGESTED_WAIT_NS, self._wake, wake)
            return
        self._awake_since = max(due, now - BEHIND_NS_MAX)
        self._show(program, program.woken, name)
        self.grant()
        self._awake_since = 0


def _follows_up(program: Application) -> bool:
    """Whether the program wants to know the identities of what it submitted."""
    return type(program).accepted is not Application.accepted
