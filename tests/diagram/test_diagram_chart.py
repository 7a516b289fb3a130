"""Line charts: well-formed, escaped, readable in light and dark and without colour."""

from __future__ import annotations

import re
from itertools import product
from xml.etree import ElementTree as ET

import pytest

from beforehand.diagram.chart import (
    _COLOURS_DARK,
    _COLOURS_LIGHT,
    _DASHES,
    _MARKERS,
    LINES_MAX,
    ChartLine,
    ChartPoint,
    Panel,
    chart_svg,
    figure_text,
)
from beforehand.diagram.sheet import DARK, LIGHT, Theme
from beforehand.diagram.ticks import decades, round_ticks


def line(name: str, *values: tuple[float, float]) -> ChartLine:
    return ChartLine(name=name, points=tuple(ChartPoint(x=x, y=y) for x, y in values))


def panel(*lines: ChartLine, **more: bool) -> Panel:
    return Panel(title="a", x_label="load", y_label="bytes", lines=lines or (line("one", (1, 2), (2, 3)),), **more)


def test_a_chart_is_one_well_formed_document_that_fetches_nothing() -> None:
    text = chart_svg([panel(), panel()], title="two panels")

    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "://" not in text.replace("http://www.w3.org/", "")
    assert {"load", "bytes", "one", "two panels"} <= {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}


def test_text_cannot_become_markup() -> None:
    text = chart_svg([panel(line("<script>&", (1, 1)))], title="</svg><b>", description="<i>")

    assert ET.fromstring(text) is not None
    assert "<script>" not in text
    assert "<b>" not in text


def test_the_same_chart_gives_the_same_bytes() -> None:
    assert chart_svg([panel()], title="t") == chart_svg([panel()], title="t")


def test_lines_differ_in_dash_marker_and_colour() -> None:
    for signs in (_DASHES, _MARKERS, _COLOURS_LIGHT, _COLOURS_DARK):
        assert len(set(signs)) == len(signs) == LINES_MAX


@pytest.mark.parametrize(
    ("colour", "paper"), [*product(_COLOURS_LIGHT, [LIGHT.paper]), *product(_COLOURS_DARK, [DARK.paper])]
)
def test_lines_stand_out_from_the_paper(colour: str, paper: str) -> None:
    light, dark = sorted((luminance(colour), luminance(paper)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_line_looks_the_same_in_every_panel() -> None:
    text = chart_svg([panel(line("b", (1, 1)), line("a", (1, 1))), panel(line("a", (1, 2)))], title="t")
    assert re.findall(r"<title>a: \d at 1</title>", text) == ["<title>a: 1 at 1</title>", "<title>a: 2 at 1</title>"]
    assert len(re.findall(r'class="mark s1"', text)) == 3, "two points and the legend"


def test_greater_values_stand_higher_and_further_right() -> None:
    growing = line("a", (1, 10), (10, 100), (100, 1000))
    text = chart_svg([panel(growing, logarithmic_x=True, logarithmic_y=True)], title="t")

    found = re.findall(r'<path class="mark s0"[^>]*translate\((\S+) (\S+)\)">', text)[:3]
    (x1, y1), (x2, y2), (x3, y3) = [(float(x), float(y)) for x, y in found]
    assert x1 < x2 < x3
    assert y1 > y2 > y3, "from the top"
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2), "equal factors are equal steps"


@pytest.mark.parametrize("theme", list(Theme))
def test_each_theme_has_its_colours(theme: Theme) -> None:
    text = chart_svg([panel()], title="t", theme=theme)
    assert (_COLOURS_LIGHT[0] in text) == (theme is not Theme.DARK)
    assert (_COLOURS_DARK[0] in text) == (theme is not Theme.LIGHT)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="points"):
        panel(line("empty"))
    with pytest.raises(ValueError, match="below 0"):
        panel(line("a", (1, -1)))
    with pytest.raises(ValueError, match="no place for 0"):
        panel(line("a", (0, 1)), logarithmic_x=True)
    with pytest.raises(ValueError, match="finite"):
        panel(line("a", (1, float("nan"))))
    with pytest.raises(ValueError, match="at most"):
        chart_svg([panel(*(line(f"l{at}", (1, 1)) for at in range(LINES_MAX + 1)))], title="t")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12, "12"), (1234567, "1,234,567"), (0.1234, "0.123"), (1234.5, "1,234"), (2.0, "2")],
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert figure_text(value) == text


def test_ticks_are_round_and_reach_the_most() -> None:
    assert round_ticks(7) == (8.0, [0, 2, 4, 6, 8])
    assert round_ticks(0.9, whole=False)[0] == 1.0
    assert decades(3, 40) == [1, 2, 5, 10, 20, 50, 100]
    assert decades(1, 1) == [1, 2, 5, 10]
    assert decades(0.1, 1000) == [0.1, 1, 10, 100, 1000]
