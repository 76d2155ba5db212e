"""Who is to blame: every error a user or a host can meet, and the exit code it stands for."""

from __future__ import annotations

from typing import ClassVar


class CastbedError(Exception):
    """Base of all errors that Castbed raises on purpose."""

    exit_code = 1


class PeerError(CastbedError):
    """The other side is wrong: a malformed or impossible packet. The host drops the packet and counts it.

    `counter` is the name under which hosts count it when it came from a frame.
    """

    counter: ClassVar[str] = "malformed"


class ContractError(CastbedError):
    """Our side is wrong: a plugin or a host broke the contract. The run stops."""


class ConfigurationError(CastbedError):
    """The experiment or the command line is wrong; `path` names the key."""

    exit_code = 2

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class UnavailableError(CastbedError):
    """This machine lacks something that is needed; the text says what, and how to get it."""

    exit_code = 3
