"""Marks of the tests that run whole experiments in real time."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "udp: whole experiments on sockets, for `tox -e udp`")
    config.addinivalue_line("markers", "netns: whole experiments in namespaces, for `tox -e netns`")
