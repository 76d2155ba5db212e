"""Space-time diagrams of a few events of a history: as text for terminals, as SVG for reports."""

from __future__ import annotations

from castbed.diagram.svg import space_time_svg
from castbed.diagram.text import explain, space_time_text

__all__ = ["explain", "space_time_svg", "space_time_text"]
