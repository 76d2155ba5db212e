"""Small protocols, each right in its variant `correct`; every other variant plants one classic mistake."""

from __future__ import annotations

from castbed import Protocol, hookimpl
from castbed.registry import Register

from castbed_mistakes import causal, fifo, handoff, resend, restart, views

__all__ = ["castbed_protocols"]


@hookimpl
def castbed_protocols(register: Register[Protocol]) -> None:
    """Add the protocols of this distribution."""
    for module in (fifo, causal, resend, restart, handoff, views):
        register.add(module.PROTOCOL)
