"""Workloads that ship with the testbed."""

from castbed_testbed.workloads.script import SCRIPT
from castbed_testbed.workloads.steady import STEADY

WORKLOADS = (SCRIPT, STEADY)

__all__ = ["SCRIPT", "STEADY", "WORKLOADS"]
