"""The plot of `beforehand tune`: what each δ would have cost, a panel for each kind of cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from beforehand.diagram.chart import ChartLine, ChartPoint, Panel, chart_svg

if TYPE_CHECKING:
    from beforehand.history.tuning import Cost
    from beforehand.pipeline.stored.tuning import Tuning

__all__ = ["tuning_chart"]

_MS = 1_000_000


def tuning_chart(tuning: Tuning) -> str:
    """As SVG. There must be costs; what is not known is not drawn."""
    epsilon, delta = tuning.recommended_epsilon_ns, tuning.recommended_delta_ns
    told = [f"δ = {(delta or 0) / _MS:g} ms is the smallest with at most {100 * tuning.late:g} % of messages late"]
    told += [f"ε = {epsilon / _MS:g} ms"] if epsilon is not None else []
    late = _line("late", tuning.table, lambda one: 100 * one.late)
    waits = [
        _line("wait, mean", tuning.table, lambda one: _ms(one.latency_mean_ns)),
        _line("wait, longest", tuning.table, lambda one: _ms(one.latency_max_ns)),
        _line("wait, bound δ + 3ε", tuning.table, lambda one: _ms(one.latency_bound_ns)),
    ]
    waiting = [
        _line("waiting at one merger of all", tuning.table, lambda one: one.buffered_max),
        _line("waiting at one receiver", tuning.table, lambda one: one.buffered_process_max),
    ]
    drawn = [
        ("Messages that would be late", "% of all", [late]),
        ("How long the others wait", "ms", waits),
        ("How many wait at once", "messages", waiting),
    ]
    logarithmic = all(one.delta_ns > 0 for one in tuning.table)
    panels = [
        Panel(title=title, x_label="δ, ms", y_label=unit, lines=tuple(filled), logarithmic_x=logarithmic)
        for title, unit, lines in drawn
        if (filled := [line for line in lines if line.points])
    ]
    return chart_svg(panels, title=f"Choosing δ: {'; '.join(told)}", columns=3)


def _line(name: str, table: Sequence[Cost], figure: Callable[[Cost], float | None]) -> ChartLine:
    points = [(one.delta_ns / _MS, figure(one)) for one in table]
    return ChartLine(name=name, points=tuple(ChartPoint(x=x, y=y) for x, y in points if y is not None))


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / _MS
