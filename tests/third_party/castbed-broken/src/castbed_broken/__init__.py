"""Fails on import, as a plugin does whose own dependency is missing."""

from __future__ import annotations

raise ImportError("castbed-broken needs a library that is not there")
