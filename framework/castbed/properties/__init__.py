"""Guarantees as code: each property is a function of a history that returns its violations.

`castbed.properties.facts` defines the words that the properties use: member, stays, present, memory, addressed.
"""

from __future__ import annotations

from castbed.properties.base import VIOLATIONS_MAX, Property, Violation
from castbed.properties.catalogue import CHECKS, check

__all__ = ["CHECKS", "VIOLATIONS_MAX", "Property", "Violation", "check"]
