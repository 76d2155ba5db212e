"""What tests need that make namespaces in their own process."""

from __future__ import annotations

import os

import pytest

from castbed.errors import UnavailableError

REQUIRED = "CASTBED_NETNS"  # an environment that is there for these tests must not pass by skipping them all


def why_no_namespaces() -> str:
    """Why there can be none here; empty when there can."""
    if os.geteuid() != 0:
        return "making namespaces in the test's own process needs root"
    from castbed_adapters.netns.spaces import become_able  # needs pyroute2

    try:
        become_able()
    except UnavailableError as problem:
        return str(problem)
    return ""


def need_namespaces(whole_module: bool = False) -> None:
    """Skip the test, or the whole module that says so, where there can be none; fail where they are required."""
    problem = why_no_namespaces()
    if problem and os.environ.get(REQUIRED) == "required":
        raise AssertionError(f"{REQUIRED} is set, and {problem}")
    if problem:
        pytest.skip(problem, allow_module_level=whole_module)
