"""From the words of a user, on a command line or in a test, to what is explored; every mistake names its option."""

from __future__ import annotations

from collections.abc import Iterable

from castbed.assembly import variant_name
from castbed.registry import Registry
from castbed_testbed.explore.configurations import parse_model
from castbed_testbed.explore.engine import Request
from castbed_testbed.explore.freedoms import check_freedom
from castbed_testbed.explore.menu import MIX, check_strategy


def make_request(
    registry: Registry,
    name: str,
    variant: str | None = None,
    properties: Iterable[str] = (),
    model: str | None = None,
    strategy: str = MIX,
    seed: int = 1,
    without: Iterable[str] = (),
    allow: Iterable[str] = (),
) -> Request:
    """What the options of `castbed explore` ask for."""
    protocol = registry.protocols.get(name, "PROTOCOL")
    if variant is not None:
        variant_name(protocol, variant, "--variant")
    wanted = tuple(properties)
    for one in wanted:
        registry.checks.get(one, "--property")
    sizes = parse_model(model, protocol, variant)
    chosen = sizes.setup.variant if sizes.setup is not None else variant_name(protocol, variant, "--variant")
    avoided = tuple(check_freedom(freedom, "--without") for freedom in without)
    allowed = tuple(check_freedom(freedom, "--allow") for freedom in allow)
    return Request(name, chosen, wanted, sizes, check_strategy(strategy), seed, avoided, allowed)
