"""The distributions in here bring their own tests, which run where they are installed (see test_distributions.py)."""

from __future__ import annotations

collect_ignore_glob = ["castbed-*"]
