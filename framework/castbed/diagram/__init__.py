"""Pictures: space-time diagrams of a few events of a history, as text and as SVG, and charts of numbers."""

from __future__ import annotations

from castbed.diagram.chart import Chart, Curve, Spot, chart_svg
from castbed.diagram.svg import space_time_svg
from castbed.diagram.text import explain, space_time_text

__all__ = ["Chart", "Curve", "Spot", "chart_svg", "explain", "space_time_svg", "space_time_text"]
