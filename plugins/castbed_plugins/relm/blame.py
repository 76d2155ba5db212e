"""How RelM's machines refuse what cannot be: before anything has changed."""

from __future__ import annotations

from castbed import PeerError


def expect(sensible: bool, problem: str) -> None:
    """Blame the packet on its sender unless it is sensible."""
    if not sensible:
        raise PeerError(problem)
