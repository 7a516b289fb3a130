"""Line charts as one self-contained SVG 1.1 document: panels side by side, one legend for all of them.

Lines are told apart by dashes and markers as well as by colour. Colours follow the reader's preference for light or
dark; contrast against the paper is at least 3 to 1 in both. Whiskers show a spread. Every point has a
tooltip with its figures; all text is escaped. The same charts give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.diagram.page.markup import Markup, element, joined, text
from beforehand.diagram.sheet import DARK, FONT, LIGHT, Palette, Theme
from beforehand.diagram.text import visible, width_of
from beforehand.diagram.ticks import decades, round_ticks

__all__ = ["LINES_MAX", "ChartLine", "ChartPoint", "Panel", "chart_svg", "figure_text"]

_COLOURS_LIGHT: Final = (
    "#1c5fc4", "#a85a00", "#0b7468", "#c2183a", "#6b2bd0", "#5f6c7a", "#7a6a00", "#a3238e", "#1e2a36", "#2f7d1f",
)  # fmt: skip
_COLOURS_DARK: Final = (
    "#74aaff", "#f0b05c", "#45cdbd", "#ff7389", "#bd9bff", "#94a2b0", "#d6c64a", "#f08be0", "#e4eaf0", "#86d472",
)  # fmt: skip
_DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "12 4", "5 2 1 2 1 2", "1 2", "14 3 3 3", "4 4", "10 2 2 2 2 2")
_MARKERS: Final = (
    "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",  # A disc.
    "M-3.6 -3.6H3.6V3.6H-3.6Z",  # A square.
    "M0 -4.8L4.6 3.4H-4.6Z",  # A triangle.
    "M0 -5L5 0L0 5L-5 0Z",  # A diamond.
    "M0 4.8L4.6 -3.4H-4.6Z",  # A triangle on its head.
    "M-4 -4L4 4M4 -4L-4 4",  # A cross.
    "M-5 0H5M0 -5V5",  # A plus.
    "M0 -5L1.5 -1.6L4.8 -1.5L2.3 0.7L3.1 4L0 2.2L-3.1 4L-2.3 0.7L-4.8 -1.5L-1.5 -1.6Z",  # A star.
    "M-5 -2H5V2H-5Z",  # A bar.
    "M-2.2 -5H2.2V5H-2.2Z",  # A pillar.
)

LINES_MAX: Final = len(_MARKERS)
"""So many lines can be told apart."""

_WIDTH: Final = 470.0  # Of a panel.
_HEIGHT: Final = 310.0
_LEFT: Final = 62.0
_RIGHT: Final = 20.0
_TOP: Final = 40.0
_BOTTOM: Final = 50.0
_MARGIN: Final = 20.0
_LABEL_ROOM: Final = 34.0  # Between the labels of the horizontal axis.

_SHAPES: Final = f"""\
.ch text{{font-family:{FONT};font-size:11px}}
.ch .title{{font-size:16px;font-weight:600}}
.ch .head{{font-size:12.5px;font-weight:600}}
.ch .line{{fill:none;stroke-width:2}}
.ch .mark{{stroke-width:1.6;stroke-linejoin:round}}
.ch .whisker{{fill:none;stroke-width:1.2;opacity:.8}}
.ch .grid,.ch .axis{{fill:none;stroke-width:1}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPoint:
    """A value, with the spread that it was seen with, if there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """Lines of one name look the same in all panels."""

    name: str
    points: tuple[ChartPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes. A logarithmic axis takes values above 0 only."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[ChartLine, ...]
    logarithmic_x: bool = False
    logarithmic_y: bool = False

    def __post_init__(self) -> None:
        points = [point for line in self.lines for point in line.points]
        values = [v for p in points for v in (p.x, p.y, p.low, p.high) if v is not None]
        if not points or not all(math.isfinite(value) for value in values):
            raise ValueError("a panel needs points, and finite ones")
        if min(min(p.x, p.y) for p in points) < 0:
            raise ValueError("a chart shows nothing below 0")
        if self.logarithmic_x and min(p.x for p in points) <= 0:
            raise ValueError("a logarithmic axis has no place for 0")
        if self.logarithmic_y and min(min(p.y, p.y if p.low is None else p.low) for p in points) <= 0:
            raise ValueError("a logarithmic axis has no place for 0")


def chart_svg(
    panels: Sequence[Panel], *, title: str, description: str = "", columns: int = 2, theme: Theme = Theme.AUTO
) -> str:
    """Draw the panels, `columns` in a row, and the legend below them."""
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    if not panels or len(names) > LINES_MAX:
        raise ValueError(f"a chart has panels, and at most {LINES_MAX} lines of different names")
    styles = {name: at for at, name in enumerate(names)}
    columns = min(columns, len(panels))
    width = max(columns * _WIDTH, width_of(visible(title, 120), 18)) + 2 * _MARGIN
    legend, bottom = _legend(names, width, _MARGIN + 26 + math.ceil(len(panels) / columns) * _HEIGHT)
    drawn = [
        element(
            "g",
            *_panel(panel, styles),
            transform=f"translate({_MARGIN + at % columns * _WIDTH:g} {_MARGIN + 20 + at // columns * _HEIGHT:g})",
        )
        for at, panel in enumerate(panels)
    ]
    height = bottom + _MARGIN
    body = element(
        "svg",
        element("title", title),
        element("desc", description or _spoken(panels)),
        Markup(f'<style type="text/css"><![CDATA[\n{_style_sheet(theme)}]]></style>'),
        element("rect", class_="paper", width=width, height=height),
        element("text", title, x=_MARGIN, y=_MARGIN + 8, class_="title"),
        *drawn,
        legend,
        xmlns=Markup("http://www.w3.org/2000/svg"),
        version="1.1",
        class_="ch",
        role="img",
        width=width,
        height=height,
        viewBox=f"0 0 {width:g} {height:g}",
    )
    return f"{body}\n"


def figure_text(value: float) -> str:
    """A figure of a table or an axis: three digits, more only before the point."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _spoken(panels: Sequence[Panel]) -> str:
    said = []
    for panel in panels:
        ends = [
            f"{line.name} from {figure_text(line.points[0].y)} to {figure_text(line.points[-1].y)}"
            for line in panel.lines
            if line.points
        ]
        said.append(f"{panel.title}: {panel.y_label} against {panel.x_label}; {', '.join(ends)}.")
    return " ".join(said)


def _panel(panel: Panel, styles: dict[str, int]) -> list[Markup]:
    points = [point for line in panel.lines for point in line.points]
    x, x_ticks = _axis([p.x for p in points], panel.logarithmic_x, _LEFT, _WIDTH - _RIGHT)
    tops = [p.y if p.high is None else max(p.y, p.high) for p in points]
    lows = [p.y if p.low is None else min(p.y, p.low) for p in points]
    y, y_ticks = _axis([*tops, *lows], panel.logarithmic_y, _HEIGHT - _BOTTOM, _TOP)
    middle, floor = (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - _BOTTOM
    parts = [element("text", panel.title, x=_LEFT, y=_TOP - 16, class_="head")]
    for value in y_ticks:
        at = y(value)
        parts.append(element("path", class_="grid", d=f"M{_LEFT:g} {at:.1f}H{_WIDTH - _RIGHT:g}"))
        parts.append(element("text", figure_text(value), x=_LEFT - 7, y=at + 4, text_anchor="end", class_="quiet"))
    parts.append(element("path", class_="axis", d=f"M{_LEFT:g} {floor:g}H{_WIDTH - _RIGHT:g}"))
    last = -math.inf
    for value in x_ticks:
        at = x(value)
        if at - last >= _LABEL_ROOM:
            last = at
            parts.append(element("path", class_="axis", d=f"M{at:.1f} {floor:g}v4"))
            parts.append(
                element("text", figure_text(value), x=at, y=floor + 17, text_anchor="middle", class_="quiet")
            )
    parts.append(element("text", panel.x_label, x=middle, y=_HEIGHT - 14, text_anchor="middle"))
    turned = f"rotate(-90 14 {(_TOP + floor) / 2:g})"
    parts.append(element("text", panel.y_label, x=14, y=(_TOP + floor) / 2, text_anchor="middle", transform=turned))
    parts += [_line(line, styles[line.name], x, y) for line in panel.lines]
    return parts


def _line(line: ChartLine, style: int, x: Callable[[float], float], y: Callable[[float], float]) -> Markup:
    ordered = sorted(line.points, key=lambda point: point.x)
    path = "L".join(f"{x(point.x):.1f} {y(point.y):.1f}" for point in ordered)
    parts = [element("path", class_=f"line s{style}", d=f"M{path}", stroke_dasharray=_DASHES[style] or None)]
    for point in ordered:
        at = x(point.x)
        told = f"{line.name}: {figure_text(point.y)} at {figure_text(point.x)}"
        if point.low is not None and point.high is not None and point.high > point.low:
            low, high = y(point.low), y(point.high)
            ends = f"M{at - 3:.1f} {low:.1f}h6M{at - 3:.1f} {high:.1f}h6M{at:.1f} {low:.1f}V{high:.1f}"
            parts.append(element("path", class_=f"whisker s{style}", d=ends))
            told += f" ({figure_text(point.low)} to {figure_text(point.high)})"
        parts.append(_mark(style, at, y(point.y), told))
    return element("g", *parts)


def _mark(style: int, x: float, y: float, told: str = "") -> Markup:
    tip = [element("title", told)] if told else []
    place = f"translate({x:.1f} {y:.1f})"
    return element("path", *tip, class_=f"mark s{style}", d=_MARKERS[style], transform=place)


def _axis(
    values: Sequence[float], logarithmic: bool, start: float, end: float
) -> tuple[Callable[[float], float], list[float]]:
    """From a value to its place, and where the lines are."""
    if logarithmic:
        ticks = decades(min(values), max(values))
        low, high = math.log10(min(ticks[0], min(values))), math.log10(max(ticks[-1], max(values)))
        return lambda value: start + (math.log10(value) - low) / (high - low) * (end - start), ticks
    top, lines = round_ticks(max(max(values), 1e-9), whole=False)
    return lambda value: start + value / top * (end - start), [float(line) for line in lines]


def _legend(names: Sequence[str], width: float, y: float) -> tuple[Markup, float]:
    parts: list[Markup] = []
    x = _MARGIN + _LEFT
    for style, name in enumerate(names):
        room = 52 + width_of(visible(name, 60), 11)
        if x + room > width - _MARGIN and x > _MARGIN + _LEFT:
            x, y = _MARGIN + _LEFT, y + 20
        dash = _DASHES[style] or None
        parts.append(element("path", class_=f"line s{style}", d=f"M{x:.1f} {y:.1f}h34", stroke_dasharray=dash))
        parts.append(_mark(style, x + 17, y))
        parts.append(element("text", text(name, 60), x=x + 40, y=y + 4))
        x += room + 14
    return joined(parts), y


def _style_sheet(theme: Theme) -> str:
    dark = _colours(DARK, _COLOURS_DARK)
    rules = _SHAPES + (dark if theme is Theme.DARK else _colours(LIGHT, _COLOURS_LIGHT))
    return f"{rules}@media (prefers-color-scheme:dark){{\n{dark}}}\n" if theme is Theme.AUTO else rules


def _colours(palette: Palette, colours: Sequence[str]) -> str:
    rules = [
        f".ch .paper{{fill:{palette.paper}}}",
        f".ch text{{fill:{palette.ink}}}",
        f".ch .quiet{{fill:{palette.muted}}}",
        f".ch .grid{{stroke:{palette.tag_border}}}",
        f".ch .axis{{stroke:{palette.muted}}}",
        *(f".ch .s{at}{{stroke:{colour}}}" for at, colour in enumerate(colours)),
        *(f".ch .mark.s{at}{{fill:{colour}}}" for at, colour in enumerate(colours)),
    ]
    return "\n".join(rules) + "\n"
