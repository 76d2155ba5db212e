"""The promises that the declaration makes, run against Castbed's own conformance tests; needs the plugin installed."""

from __future__ import annotations

from collections.abc import Callable

from castbed import load_registry


def test_the_plugin_is_found_where_it_is_installed() -> None:
    registry = load_registry()
    assert registry.protocols.distribution_of("lamport") == "castbed-lamport"


def test_it_keeps_its_promises(castbed_conform: Callable[[str], object]) -> None:
    castbed_conform("lamport")


def test_no_schedule_breaks_its_promises(castbed_explore: Callable[[str], object]) -> None:
    castbed_explore("lamport")
