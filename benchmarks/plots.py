"""Plots as SVG, drawn from reports alone: light or dark as the reader likes, the same bytes for the same figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from beforehand.diagram.chart import ChartLine, ChartPoint, Panel, chart_svg
from benchmarks.bars import Bar, bars_svg
from benchmarks.report import Figure, Report, Table

__all__ = ["growth_plot", "plot_of"]


def plot_of(report: Report) -> str | None:
    """None if this part has no plot, or nothing to draw was measured."""
    draw = _PLOTS.get(report.part)
    return None if draw is None else draw(report)


def growth_plot(reports: Mapping[str, Report]) -> str | None:
    """Both runs of the pipeline in one picture."""
    runs = {name: table for name in ("pipeline", "pipeline-100") if (table := _table(reports.get(name), "growth"))}
    taken = [
        (f"{name}{what}", _by_rows(table, column, per=1e6))
        for name, table in runs.items()
        for what, column in (("", "seconds"), (": Spark's sort", "sort and write, s"))
    ]
    over = [(name, _by_rows(table, "ratio", per=1e6)) for name, table in runs.items()]
    panels = [
        _panel("Seconds for all steps", "million events", "s", taken, "xy"),
        _panel("Over Spark's own sort and write", "million events", "times", over, "x"),
    ]
    return _chart("The pipeline against the number of events", panels)


def _clocks(report: Report) -> str | None:
    table = _table(report, "vector")
    if table is None:
        return None
    panels = []
    for operation in ("tick", "merge", "compare (before)", "compare (concurrent)"):
        lines = {}
        for row in table.rows:
            who, _, what = row.name[0].replace("*", "").partition(": ")
            if what.removesuffix(" (`receive`)") == operation:
                name = "Beforehand" if who.startswith("Vector") else who
                lines[name] = _by_columns(table, row.name)
        panels.append(_panel(operation, "entries", "ns", lines.items(), "xy"))
    return _chart("Vector clocks: nanoseconds against entries", panels)


def _past(report: Report) -> str | None:
    table = _table(report, "past")
    if table is None:
        return None
    ways = list(dict.fromkeys(row.name[0] for row in table.rows))
    panels = [
        _panel(
            title, "thousand events", unit, ((w.strip("*"), _by_rows(table, column, w, per=1e3)) for w in ways), "xy"
        )
        for title, column, unit in (
            ("Loading", "load, s", "s"),
            ("Stamps of all", "stamps of all, s", "s"),
            ("The past of one", "past, ms", "ms"),
        )
    ]
    return _chart("Stamps and pasts beside graph libraries", panels)


def _ordering(report: Report) -> str | None:
    table = _table(report, "pending")
    if table is None:
        return None
    lines = [(row.name[0].strip("*"), _by_columns(table, row.name)) for row in table.rows]
    return _chart("Messages that wait, in reverse", [_panel("", "messages that wait", "µs per message", lines, "x")])


def _rpc(report: Report) -> str | None:
    panels = []
    for carrier in ("HTTP", "gRPC"):
        if table := _table(report, carrier):
            kinds = list(dict.fromkeys(row.name[0] for row in table.rows if row.name[1]))
            lines = [(kind, _by_rows(table, "ratio", kind)) for kind in kinds]
            sizes = [point.x for _, points in lines for point in points]
            floor = table.figure(("floor", ""), "ratio")
            if floor and sizes:
                lines.append(("floor", [_point(x, floor) for x in (min(sizes), max(sizes))]))
            panels.append(_panel(carrier, "entries", "times a call without stamps", lines, "xy"))
    return _chart("Calls with stamps beside calls without", panels)


def _groups(report: Report) -> str | None:
    table = _table(report, "orders")
    if table is None:
        return None
    bars: list[Bar] = []
    for row in table.rows:
        rate = table.figure(row.name, "deliveries per second")
        slower = table.figure(row.name, "times slower")
        if rate and slower:
            told = f"{rate.plain}, {slower.plain} times slower" if bars else rate.plain
            bars.append(
                Bar(name=row.name[0], value=rate.value, told=told, low=rate.low, high=rate.high, strong=not bars)
            )
    return (
        bars_svg(bars, title="Groups of five processes", unit="deliveries per second, all members") if bars else None
    )


def _service(report: Report) -> str | None:
    table = _table(report, "ways")
    if table is None:
        return None
    bars = []
    for row in table.rows:
        rate, aim = table.figure(row.name, "stored, events/s"), table.figure(row.name, "aim")
        if rate and aim:
            told = f"{rate.plain} (aim {aim.plain})"
            bars.append(
                Bar(name=row.name[0], value=rate.value, told=told, low=rate.low, high=rate.high, aim=aim.value)
            )
    return bars_svg(bars, title="The event service over HTTP", unit="events stored per second") if bars else None


def _growth(report: Report) -> str | None:
    return growth_plot({report.part: report})


def _processes(report: Report) -> str | None:
    table = _table(report, "processes")
    if table is None:
        return None
    panels = [
        _panel(title, "processes", unit, [("pipeline", _by_rows(table, column))], "x")
        for title, column, unit in (
            ("Seconds for all steps", "seconds", "s"),
            ("Over Spark's own sort and write", "ratio", "times"),
        )
    ]
    return _chart("The pipeline against the number of processes", panels)


_PLOTS: Final[dict[str, Callable[[Report], str | None]]] = {
    "clocks": _clocks,
    "past": _past,
    "ordering": _ordering,
    "rpc": _rpc,
    "groups": _groups,
    "service": _service,
    "pipeline": _growth,
    "pipeline-100": _growth,
    "pipeline-processes": _processes,
}


def _table(report: Report | None, name: str) -> Table | None:
    return None if report is None else report.table(name)


def _by_rows(table: Table, column: str, *first: str, per: float = 1) -> list[ChartPoint]:
    """Of the rows whose name begins so and ends in a number, which is x, in units of `per`."""
    rows = [row for row in table.rows if row.name[:-1] == first]
    found = ((row.name[-1], table.figure(row.name, column)) for row in rows)
    return [_point(_number(x) / per, figure) for x, figure in found if figure is not None and x]


def _by_columns(table: Table, name: tuple[str, ...]) -> list[ChartPoint]:
    """Of one row; the columns are named by a number, which is x."""
    found = ((column, table.figure(name, column)) for column in table.columns[len(name) :])
    return [_point(_number(column), figure) for column, figure in found if figure is not None]


def _point(x: float, figure: Figure) -> ChartPoint:
    return ChartPoint(x=x, y=figure.value, low=figure.low, high=figure.high)


def _number(text: str) -> float:
    return float(text.partition(" ")[0].replace(",", ""))


def _panel(
    title: str, x: str, y: str, lines: Iterable[tuple[str, list[ChartPoint]]], logarithmic: str
) -> Panel | None:
    drawn = tuple(ChartLine(name=name, points=tuple(points)) for name, points in lines if points)
    if not drawn:
        return None
    least = min(point.y if point.low is None else point.low for line in drawn for point in line.points)
    return Panel(
        title=title,
        x_label=x,
        y_label=y,
        lines=drawn,
        logarithmic_x="x" in logarithmic,
        logarithmic_y="y" in logarithmic and least > 0,
    )


def _chart(title: str, panels: Iterable[Panel | None]) -> str | None:
    drawn = [panel for panel in panels if panel is not None]
    return chart_svg(drawn, title=title) if drawn else None
