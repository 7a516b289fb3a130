"""The charts of a report as inline SVG: pure functions of numbers, with a text for those who do not see them.

Colours come from the page's style sheet, so light and dark follow the reader. Every bar and every point has a tooltip
with its exact figures. What colour says is said by a pattern or a text too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from beforehand.diagram.page.markup import Markup, element, joined
from beforehand.diagram.ticks import round_ticks
from beforehand.pipeline.report.text import amount_text, duration_text, share_text

__all__ = ["BARS_MAX", "Bin", "delay_chart", "lateness_chart", "merged", "offset_axis", "offset_bar", "offset_scale"]

Bin = tuple[int | float, int | float, int | float]  # Low, high, count.

BARS_MAX: Final = 72

_WIDTH: Final = 760.0
_HEIGHT: Final = 260.0
_LEFT: Final = 62.0
_RIGHT: Final = 22.0
_TOP: Final = 14.0
_BOTTOM: Final = 44.0
_EMPTY_MAX: Final = 6  # Bins in a row without a delay; more are folded.
_LABEL_ROOM: Final = 68.0  # Between the labels of the horizontal axis.


def merged(bins: Sequence[Bin], limit: int = BARS_MAX) -> list[Bin]:
    """Neighbours added up until at most `limit` bars are left; what is never mixed is before zero and after.

    The bins are in order and the limit is at least 2, so each round merges something.
    """
    kept = list(bins)
    while len(kept) > limit:
        halved: list[Bin] = []
        position = 0
        while position < len(kept):
            pair = kept[position : position + 2]
            together = len(pair) == 2 and (pair[0][0] < 0) == (pair[1][0] < 0)
            taken = pair if together else pair[:1]
            halved.append((taken[0][0], taken[-1][1], sum(one[2] for one in taken)))
            position += len(taken)
        kept = halved
    return kept


def delay_chart(bins: Sequence[Bin]) -> Markup:
    """One bar per bin, all equally wide: the bins grow by a factor, so the axis is logarithmic.

    Long stretches without any delay, as between negative and positive ones, are folded into a sign.
    """
    shown = merged(bins)
    stretches = _stretches(shown)
    columns = sum(len(one) or 1 for one in stretches)
    width = min((_WIDTH - _LEFT - _RIGHT) / columns, 64.0)
    top, ticks = round_ticks(max(max(one[2] for one in shown), 1))
    parts: list[Markup] = []
    labels: list[tuple[float, str]] = []
    x = _LEFT
    for stretch in stretches:
        if not stretch:
            middle, floor = x + width / 2, _HEIGHT - _BOTTOM
            fold = element("title", "nothing between these")
            parts.append(element("text", fold, "⋯", x=middle, y=floor - 6, text_anchor="middle", class_="fold"))
            x += width
            continue
        if not labels or x - labels[-1][0] >= _LABEL_ROOM * 0.7:
            labels.append((x, duration_text(stretch[0][0])))
        for low, high, number in stretch:
            parts.append(_bar(low, high, number, x=x, width=width, top=top))
            x += width
            if x - labels[-1][0] >= _LABEL_ROOM:
                labels.append((x, duration_text(high)))
    most = max(shown, key=lambda one: one[2])
    spoken = (
        f"Histogram of delays from {duration_text(shown[0][0])} to {duration_text(shown[-1][1])}; most, "
        f"{amount_text(most[2])}, lie between {duration_text(most[0])} and {duration_text(most[1])}."
    )
    return _chart(
        spoken,
        _pattern(),
        _grid([(value, amount_text(value)) for value in ticks], top),
        joined(parts),
        _bottom(labels, "delay: receive minus send, on raw clocks (equal steps are equal factors)"),
    )


def _bar(low: int | float, high: int | float, number: int | float, *, x: float, width: float, top: float) -> Markup:
    y = _y(number / top)
    return element(
        "rect",
        element("title", f"{duration_text(low)} to {duration_text(high)}: {amount_text(number)}"),
        class_="bar negative" if low < 0 else "bar",
        x=x + min(1.0, width * 0.08),
        y=y,
        width=max(width - min(2.0, width * 0.16), 0.5),
        height=max(_HEIGHT - _BOTTOM - y, 1.0 if number else 0.0),
    )


def _stretches(bins: Sequence[Bin]) -> list[list[Bin]]:
    """The bins without long runs of empty ones; an empty list stands for each such run."""
    found: list[list[Bin]] = []
    for filled, run in groupby(bins, key=lambda one: bool(one[2])):
        stretch = list(run)
        if not filled and len(stretch) > _EMPTY_MAX:
            found.append([])
        elif found and found[-1]:
            found[-1] += stretch
        else:
            found.append(stretch)
    return found


def lateness_chart(points: Sequence[tuple[int | float, float]]) -> Markup:
    """The share of messages that come too late, as a staircase over δ."""
    ordered = sorted(points)
    place, labels = _delta_axis([delta for delta, _ in ordered])
    top, ticks = round_ticks(max(max(late for _, late in ordered) * 100, 1e-9), whole=False)
    at = [(place(delta), _y(late * 100 / top)) for delta, late in ordered]
    path = f"M{at[0][0]:.1f} {at[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in at[1:])
    path += f"H{_WIDTH - _RIGHT:.1f}"
    floor = _HEIGHT - _BOTTOM
    dots = [
        element(
            "circle",
            element("title", f"δ = {duration_text(delta)}: {share_text(late)} late"),
            class_="point",
            cx=x,
            cy=y,
            r=4.5,
        )
        for (delta, late), (x, y) in zip(ordered, at, strict=True)
    ]
    spoken = "Share of messages that are late for each δ: " + ", ".join(
        f"{share_text(late)} at {duration_text(delta)}" for delta, late in ordered[:12]
    )
    return _chart(
        spoken,
        _grid([(value, share_text(value / 100)) for value in ticks], top),
        element("path", class_="area", d=f"{path}V{floor:.1f}H{at[0][0]:.1f}Z"),
        element("path", class_="curve", d=path),
        joined(dots),
        _bottom(labels, "δ: how long to wait (counted at the dots; between two of them, at most the step)"),
    )


def offset_scale(bounds: Iterable[int | float | None]) -> tuple[float, float]:
    """From where to where the bars of all clocks go, zero included, with a little air."""
    known = [float(one) for one in bounds if one is not None]
    low, high = min([0.0, *known]), max([0.0, *known])
    air = (high - low) * 0.04 or 1.0
    return low - air, high + air


def offset_bar(
    low: int | float | None, high: int | float | None, scale: tuple[float, float], sentence: str
) -> Markup:
    """Where the offset of one clock can lie. An open side runs to the edge and fades."""
    left = 0.0 if low is None else _percent(low, scale)
    right = 100.0 if high is None else _percent(high, scale)
    parts = [_line(_percent(0, scale), "zero", 0, 22)]
    if low is not None or high is not None:
        broad = max(right - left, 0.0)
        known = "range" if low is not None and high is not None else "range open"
        # A certain offset is a line; it must be seen as well.
        parts.append(_box(left, broad, known))
        parts += [_line(x, "bound", 3, 19) for x, bound in ((left, low), (right, high)) if bound is not None]
    # Percentages need no view box: the bars stretch with the column, their lines do not.
    return element("svg", *parts, class_="chart offset", role="img", aria_label=sentence, width="100%", height=22)


def offset_axis(scale: tuple[float, float]) -> Markup:
    """The two ends and zero, where they have room."""
    zero = _percent(0, scale)
    marks = [(0.0, "start", scale[0]), (100.0, "end", scale[1])]
    shown = [(x, anchor, duration_text(round(value))) for x, anchor, value in marks]
    if 18 < zero < 82:
        shown.append((zero, "middle", "0"))
    texts = [element("text", label, x=f"{x:.2f}%", y=14, text_anchor=anchor) for x, anchor, label in shown]
    return element("svg", *texts, class_="chart offset", aria_hidden="true", width="100%", height=20)


def _percent(value: int | float, scale: tuple[float, float]) -> float:
    return (value - scale[0]) / (scale[1] - scale[0]) * 100


def _line(x: float, name: str, y1: int, y2: int) -> Markup:
    return element("line", class_=name, x1=f"{x:.2f}%", x2=f"{x:.2f}%", y1=y1, y2=y2)


def _box(x: float, width: float, name: str) -> Markup:
    return element("rect", class_=name, x=f"{x:.2f}%", y=5, width=f"{width:.2f}%", height=12)


def _chart(spoken: str, *parts: str) -> Markup:
    drawing = element(
        "svg",
        *parts,
        class_="chart",
        role="img",
        aria_label=spoken,
        viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
    )
    return element("div", drawing, class_="scroll plot", tabindex=0, role="group", aria_label="Chart")


def _pattern() -> Markup:
    """Stripes for what is negative: colour alone would not say it to everybody."""
    stripe = element("path", class_="stripe", d="M0 6L6 0")
    pattern = element("pattern", stripe, id="stripes", width=6, height=6, patternUnits="userSpaceOnUse")
    return element("defs", pattern)


def _y(part: float) -> float:
    return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)


def _grid(ticks: Sequence[tuple[int | float, str]], top: float) -> Markup:
    parts: list[Markup] = []
    for value, label in ticks:
        y = _y(value / top)
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y))
        parts.append(element("text", label, x=_LEFT - 8, y=y + 4, text_anchor="end"))
    return joined(parts)


def _bottom(labels: Sequence[tuple[float, str]], title: str) -> Markup:
    floor = _HEIGHT - _BOTTOM
    parts = [element("line", class_="axis", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=floor, y2=floor)]
    for x, label in labels:
        parts.append(element("line", class_="axis", x1=x, x2=x, y1=floor, y2=floor + 4))
        parts.append(element("text", label, x=x, y=floor + 17, text_anchor="middle"))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(element("text", title, x=middle, y=_HEIGHT - 6, text_anchor="middle", class_="caption"))
    return joined(parts)


def _delta_axis(deltas: Sequence[int | float]) -> tuple[Scale, list[tuple[float, str]]]:
    """Logarithmic where the values ask for it. Zero has no logarithm: it stands a step left of the smallest."""
    positive = [float(delta) for delta in deltas if delta > 0]
    logarithmic = bool(positive) and max(positive) / min(positive) > 30
    values: list[float]
    if logarithmic:
        smallest = math.log10(min(positive))
        values = [math.log10(delta) if delta > 0 else smallest - 0.5 for delta in deltas]
    else:
        values = [0.0, *(float(delta) for delta in deltas)]
    scale = Scale(min(values), max(values), logarithmic=logarithmic)
    labels: list[tuple[float, str]] = []
    wanted = deltas if logarithmic else [scale.low + (scale.high - scale.low) * part / 4 for part in range(5)]
    for value in wanted:
        x = scale(value)
        if not labels or x - labels[-1][0] >= _LABEL_ROOM:
            labels.append((x, duration_text(value)))
    return scale, labels


class Scale:
    """From a value to a horizontal position."""

    def __init__(self, low: float, high: float, *, logarithmic: bool) -> None:
        self.low, self.high = low, high if high > low else low + 1
        self._logarithmic = logarithmic

    def __call__(self, value: int | float) -> float:
        along = (math.log10(value) if value > 0 else self.low) if self._logarithmic else float(value)
        room = _WIDTH - _LEFT - _RIGHT - 30  # The last step runs on a little.
        return _LEFT + max(0.0, (along - self.low) / (self.high - self.low)) * room
