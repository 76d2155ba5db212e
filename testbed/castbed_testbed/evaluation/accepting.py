"""Whether what came out is what had to: each condition with its verdict, and the figures that it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec

from castbed_testbed.evaluation.files import Condition
from castbed_testbed.evaluation.outcomes import Figure, Outcomes

SEEDS_NAMED_MAX = 10


class Verdict(msgspec.Struct, frozen=True):
    """A condition, whether it holds, and in words why."""

    name: str
    holds: bool
    said: str


def verdicts(outcomes: Outcomes) -> list[Verdict]:
    """All conditions of the evaluation; a condition about figures that are missing does not hold."""
    found = []
    for condition in outcomes.evaluation.written.accept:
        chosen = {name: _at(outcomes.figures(condition.measure, name), condition) for name in condition.series}
        judge = _JUDGES[condition.kind]
        said = [f"no runs of {name}" for name, figures in chosen.items() if not figures]
        wrong = list(said)
        for name, figures in chosen.items():
            problems, words = judge(condition, figures, outcomes)
            wrong += [f"{name}: {problem}" for problem in problems]
            said += [f"{name}: {words}"] if words and figures else []
        found.append(Verdict(condition.name, not wrong, "; ".join(dict.fromkeys(wrong + said))))
    return found


Judged = tuple[list[str], str]


def _at(figures: Sequence[Figure], condition: Condition) -> list[Figure]:
    return [figure for figure in figures if condition.at is None or figure.x in condition.at]


def _value(condition: Condition, figure: Figure) -> float | None:
    return figure.median if condition.statistic == "median" else figure.mean


def _missing(condition: Condition, figures: Sequence[Figure]) -> list[str]:
    return [f"nothing measured at {figure.x:g}" for figure in figures if _value(condition, figure) is None]


def _numbers(condition: Condition, figures: Sequence[Figure]) -> list[float]:
    return [value for figure in figures if (value := _value(condition, figure)) is not None]


def _listed(condition: Condition, figures: Sequence[Figure]) -> str:
    numbers = _numbers(condition, figures)
    if len(numbers) < 2:
        return "".join(f"{number:.4g}" for number in numbers)
    return f"{min(numbers):.4g} to {max(numbers):.4g}"


def _within(condition: Condition, figures: list[Figure], _outcomes: Outcomes) -> Judged:
    assert condition.low is not None
    assert condition.high is not None
    wrong = _missing(condition, figures)
    words = [_listed(condition, figures)]
    for figure in figures:
        value = _value(condition, figure)
        if value is not None and not condition.low <= value <= condition.high:
            wrong.append(f"{value:.4g} at {figure.x:g}")
        words += _seeds_outside(condition.low, condition.high, figure)
    return wrong, ", ".join(words)


def _seeds_outside(low: float, high: float, figure: Figure) -> list[str]:
    """Single runs beyond the bounds, which a mean or a median hides."""
    outside = {seed: value for seed, value in sorted(figure.values.items()) if not low <= value <= high}
    named = [f"{value:.4g} with seed {seed}" for seed, value in list(outside.items())[:SEEDS_NAMED_MAX]]
    return [f"at {figure.x:g} {len(outside)} of {figure.runs} seeds outside ({', '.join(named)})"] if outside else []


def _rising(condition: Condition, figures: list[Figure], _outcomes: Outcomes) -> Judged:
    wrong = _missing(condition, figures)
    for before, after in pairwise(figures):
        first, second = _value(condition, before), _value(condition, after)
        if first is not None and second is not None and second < first:
            wrong.append(f"falls from {first:.4g} to {second:.4g} at {after.x:g}")
    return wrong, _listed(condition, figures)


def _flat(condition: Condition, figures: list[Figure], _outcomes: Outcomes) -> Judged:
    assert condition.tolerance is not None
    numbers = _numbers(condition, figures)
    wrong = _missing(condition, figures)
    if not numbers:
        return wrong, ""
    excess = max(numbers) / min(numbers) - 1
    wrong += [f"the largest is {excess:.0%} above the smallest"] if excess > condition.tolerance else []
    return wrong, f"{_listed(condition, figures)} ({excess:.1%} apart)"


def _ratio(condition: Condition, figures: list[Figure], outcomes: Outcomes) -> Judged:
    assert condition.to is not None
    assert condition.low is not None
    others = {figure.x: _value(condition, figure) for figure in outcomes.figures(condition.measure, condition.to)}
    wrong, words = _missing(condition, figures), []
    for figure in figures:
        value, other = _value(condition, figure), others.get(figure.x)
        if not value or not other:
            wrong.append(f"nothing to compare at {figure.x:g}")
            continue
        words.append(f"{value / other:.3g} times {condition.to} at {figure.x:g}")
        wrong += [words[-1]] if value / other < condition.low else []
    return wrong, ", ".join(words)


def _overload(_condition: Condition, figures: list[Figure], _outcomes: Outcomes) -> Judged:
    calm = [f"{figure.x:g}" for figure in figures if not figure.is_overloaded]
    labelled = [f"{figure.x:g}" for figure in figures if figure.is_overloaded]
    wrong = [f"not labelled at {', '.join(calm)}"] if calm else []
    return wrong, f"labelled at {', '.join(labelled)}" if labelled else ""


def _beside(_condition: Condition, figures: list[Figure], _outcomes: Outcomes) -> Judged:
    printed = [figure for figure in figures if figure.paper is not None]
    bare = [f"nothing beside the {figure.paper:g} at {figure.x:g}" for figure in printed if figure.mean is None]
    return bare, f"{len(printed)} printed numbers, each with ours and the deviation"


_JUDGES: Mapping[str, Callable[[Condition, list[Figure], Outcomes], Judged]] = {
    "within": _within, "rising": _rising, "flat": _flat, "ratio": _ratio, "overload": _overload, "beside": _beside,
}  # fmt: skip
