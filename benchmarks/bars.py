"""Bars as one self-contained SVG 1.1 document: for things that have names and no order, as protocols.

As in `beforehand.diagram.chart`: colours follow the reader's preference for light or dark, every bar has its figure
beside it and in a tooltip, all text is escaped, and the same bars give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.diagram.page.markup import Markup, element
from beforehand.diagram.sheet import DARK, FONT, LIGHT, Palette
from beforehand.diagram.text import visible, width_of

__all__ = ["Bar", "bars_svg"]

_ROOM: Final = 430.0  # For the longest bar.
_STEP: Final = 26.0
_THICK: Final = 15.0
_MARGIN: Final = 20.0
_NAME_MAX: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    name: str
    value: float
    told: str  # Beside the bar.
    low: float | None = None
    high: float | None = None
    aim: float | None = None
    strong: bool = False  # The one that all others are compared with.


def bars_svg(bars: Sequence[Bar], *, title: str, unit: str) -> str:
    """Horizontal bars from 0, one below the other."""
    if not bars or min(bar.value for bar in bars) < 0:
        raise ValueError("a chart needs bars, and shows nothing below 0")
    most = max(max(bar.value, bar.high or 0, bar.aim or 0) for bar in bars) or 1.0
    left = _MARGIN + max(width_of(visible(bar.name, _NAME_MAX), 11) for bar in bars) + 10
    right = max(width_of(bar.told, 11) for bar in bars) + 14
    width = max(left + _ROOM + right, width_of(title, 18)) + _MARGIN
    top = _MARGIN + 44
    height = top + _STEP * len(bars) + _MARGIN
    aimed = any(bar.aim is not None for bar in bars)
    parts = [
        element("text", title, x=_MARGIN, y=_MARGIN + 8, class_="title"),
        element("text", f"{unit}{'; the upright line is the aim' if aimed else ''}", x=_MARGIN, y=_MARGIN + 28),
    ]
    for at, bar in enumerate(bars):
        parts += _drawn(bar, left, top + at * _STEP, _ROOM / most)
    spoken = f"{title}, {unit}: " + ", ".join(f"{bar.name} {bar.told}" for bar in bars)
    body = element(
        "svg",
        element("title", title),
        element("desc", spoken),
        Markup(f'<style type="text/css"><![CDATA[\n{_style_sheet()}]]></style>'),
        element("rect", class_="paper", width=width, height=height),
        *parts,
        xmlns=Markup("http://www.w3.org/2000/svg"),
        version="1.1",
        class_="br",
        role="img",
        width=width,
        height=height,
        viewBox=f"0 0 {width:g} {height:g}",
    )
    return f"{body}\n"


def _drawn(bar: Bar, left: float, y: float, scale: float) -> list[Markup]:
    end, middle = left + bar.value * scale, y + _THICK / 2
    tip = element("title", f"{bar.name}: {bar.told}")
    name = element("text", visible(bar.name, _NAME_MAX), x=left - 8, y=middle + 4, text_anchor="end")
    shape = f"bar{' strong' if bar.strong else ''}"
    parts = [name, element("rect", tip, class_=shape, x=left, y=y, width=max(end - left, 1.0), height=_THICK)]
    if bar.low is not None and bar.high is not None:
        low, high = left + bar.low * scale, left + bar.high * scale
        path = f"M{low:.1f} {middle - 4:g}v8M{high:.1f} {middle - 4:g}v8M{low:.1f} {middle:g}H{high:.1f}"
        parts.append(element("path", class_="whisker", d=path))
        end = max(end, high)
    if bar.aim is not None:
        aim = left + bar.aim * scale
        parts.append(element("path", class_="aim", d=f"M{aim:.1f} {y - 4:g}v{_THICK + 8:g}"))
        if end < aim:
            end = aim
    parts.append(element("text", bar.told, x=end + 7, y=middle + 4, class_="quiet"))
    return parts


def _style_sheet() -> str:
    shapes = (
        f".br text{{font-family:{FONT};font-size:11px}}\n.br .title{{font-size:16px;font-weight:600}}\n"
        ".br .whisker{fill:none;stroke-width:1.4}\n.br .aim{fill:none;stroke-width:2.5;stroke-dasharray:4 2}\n"
    )
    return f"{shapes}{_colours(LIGHT)}@media (prefers-color-scheme:dark){{\n{_colours(DARK)}}}\n"


def _colours(palette: Palette) -> str:
    return (
        f".br .paper{{fill:{palette.paper}}}\n.br text{{fill:{palette.ink}}}\n.br .quiet{{fill:{palette.muted}}}\n"
        f".br .bar{{fill:{palette.past}}}\n.br .strong{{fill:{palette.message}}}\n"
        f".br .whisker{{stroke:{palette.ink}}}\n.br .aim{{stroke:{palette.violation}}}\n"
    )
