"""Where the nodes of a run on `udp` are: in the network of the controller, or in namespaces that somebody made.

The namespaces are opened before any process is forked, so that every process has them and nobody can swap them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from castbed.errors import ConfigurationError, UnavailableError
from castbed.topology import Topology
from castbed.values import NodeNumber
from castbed_adapters.netns.spaces import HERE, Space

NAMED = Path("/run/netns")  # where `ip netns` keeps its names
T = TypeVar("T")


class Places:
    """The namespace of each node; without any, nothing here does anything."""

    def __init__(self, namespaces: Mapping[str, str], topology: Topology) -> None:
        self._namespaces = namespaces
        self._topology = topology
        self._spaces: dict[NodeNumber, Space] = {}
        self._home: Space | None = None

    def open(self) -> None:
        """Take hold of all namespaces; ConfigurationError names the one that is not there."""
        if not self._namespaces:
            return
        self._home = Space(os.open(HERE, os.O_RDONLY | os.O_CLOEXEC))
        for name, namespace in self._namespaces.items():
            path = f"transport.options.namespaces.{name}"
            if not self._topology.has(name):
                raise ConfigurationError(path, f"there is no node {name!r}")
            self._spaces[self._topology.number(name)] = _opened(namespace, path)

    def at(self, node: NodeNumber, work: Callable[[], T]) -> T:
        """Do something where the node is, and come back."""
        space = self._spaces.get(node)
        if space is None:
            return work()
        with _explained():
            return space.run(work)

    def enter(self, node: NodeNumber) -> None:
        """Go where the node is; sockets that are opened from now on are there."""
        space = self._spaces.get(node, self._home)
        if space is not None:
            with _explained():
                space.enter()

    def close(self) -> None:
        for space in (*self._spaces.values(), *([self._home] if self._home is not None else [])):
            space.close()
        self._spaces, self._home = {}, None


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise UnavailableError(f"only root may enter network namespaces ({error.strerror})") from None


def _opened(namespace: str, path: str) -> Space:
    """Absolute names are paths, because joining them to a folder forgets the folder."""
    try:
        return Space(os.open(NAMED / namespace, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise ConfigurationError(path, f"there is no namespace {namespace!r} ({error.strerror})") from None
