"""The figures of an evaluation: ours with the spread over the seeds, and the paper's numbers in the same colour."""

from __future__ import annotations

from collections.abc import Iterator

from castbed.diagram import Chart, Curve, Spot, chart_svg
from castbed_testbed.evaluation.files import Evaluation, Plot
from castbed_testbed.evaluation.outcomes import OVERLOAD, Figure, Outcomes


def plot_svg(outcomes: Outcomes, plot: Plot) -> str:
    """One plot; points of overloaded runs are hollow, and said to be."""
    evaluation = outcomes.evaluation
    names = evaluation.names(plot.series)
    found = {name: _measured(outcomes, plot.measure, name) for name in names}
    curves = [Curve(name, tuple(map(_spot, figures)), at) for at, (name, figures) in enumerate(found.items())]
    curves += _printed(evaluation, plot, names)
    hollow = any(figure.is_overloaded for figures in found.values() for figure in figures)
    note = " ".join(filter(None, [plot.note, f"Hollow: {OVERLOAD}." if hollow else "", SPREAD]))
    chart = Chart(
        plot.title, tuple(curves), evaluation.written.x.label, plot.label, note,
        across_scale=plot.across, up_scale=plot.scale,
    )  # fmt: skip
    return chart_svg(chart)


def _printed(evaluation: Evaluation, plot: Plot, names: list[str]) -> Iterator[Curve]:
    """What the paper prints of the measure, in the colour of the first series that it is compared with."""
    for said in evaluation.written.paper:
        compared = [name for name in names if name in said.series]
        if said.measure == plot.measure and compared:
            spots = tuple(Spot(x, y) for x, y in zip(evaluation.written.x.values, said.values, strict=True))
            yield Curve(said.name, spots, names.index(compared[0]), dashed=True)


SPREAD = "Points are medians over the seeds, bars reach from the least to the most."


def _measured(outcomes: Outcomes, measure: str, series: str) -> list[Figure]:
    return [figure for figure in outcomes.figures(measure, series) if figure.mean is not None]


def _spot(figure: Figure) -> Spot:
    assert figure.median is not None
    return Spot(figure.x, figure.median, figure.low, figure.high, figure.is_overloaded)
