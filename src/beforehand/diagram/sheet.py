"""The look: one palette for light and one for dark, and the style sheet that uses them.

Colours are written out instead of using CSS variables, because programs that turn SVG into PDF or PNG
often do not know those. Contrast against the paper: text at least 4.5 to 1, lines that carry meaning at
least 3 to 1, in both palettes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["DARK", "FONT", "LIGHT", "Palette", "Theme", "style_sheet"]

FONT: Final = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif'


class Theme(StrEnum):
    """Which palette: the reader's preference, or always the same."""

    AUTO = "auto"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """The colours of one theme."""

    paper: str
    ink: str
    muted: str  # Secondary text, concurrent events.
    message: str
    lane: str
    tag: str  # Behind the process names.
    tag_border: str
    past: str
    future: str
    selected: str
    violation: str
    cut: str


LIGHT: Final = Palette(
    paper="#ffffff",
    ink="#1e2a36",
    muted="#66727f",
    message="#5f6c7a",
    lane="#cbd3db",
    tag="#f2f5f8",
    tag_border="#d8dfe6",
    past="#1c5fc4",
    future="#a85a00",
    selected="#6b2bd0",
    violation="#c2183a",
    cut="#0b7468",
)
DARK: Final = Palette(
    paper="#12171d",
    ink="#e4eaf0",
    muted="#93a1af",
    message="#94a2b0",
    lane="#3c4854",
    tag="#1c242d",
    tag_border="#303c48",
    past="#74aaff",
    future="#f0b05c",
    selected="#bd9bff",
    violation="#ff7389",
    cut="#45cdbd",
)

# Everything but colour: the signs that remain in black and white.
_SHAPES: Final = """\
.st text{font-family:%s;font-size:11px}
.st .title{font-size:16px;font-weight:600}
.st .tag-name{font-size:12.5px;font-weight:600}
.st .middle{text-anchor:middle}
.st .badge-text{font-size:9px;font-weight:700;text-anchor:middle}
.st .run-text{font-weight:600;text-anchor:middle}
.st .halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}
.st .name{font-weight:500}
.st .lane{stroke-width:1.5}
.st .span{stroke-width:4;stroke-linecap:round;opacity:.32}
.st .span.future{stroke-width:3;stroke-dasharray:.1 6;opacity:.6}
.st .arrow{fill:none;stroke-width:1.4}
.st .arrow.past{stroke-width:2}
.st .arrow.future{stroke-width:1.8;stroke-dasharray:10 3}
.st .arrow.concurrent{stroke-width:1;opacity:.75}
.st .arrow.inferred{stroke-dasharray:1.5 3.5}
.st .arrow.backwards{stroke-dasharray:4 4;stroke-width:1.8}
.st .arrow.violation{stroke-width:2.8}
.st .open{fill:none;stroke-width:1.8}
.st .dot{stroke-width:1.8}
.st .concurrent .dot{stroke-width:1.4;stroke-dasharray:2 1.6}
.st .untimed .dot{stroke-dasharray:1 2}
.st .ring{fill:none;stroke-width:2}
.st .front{fill:none;stroke-width:2.4;stroke-dasharray:9 4 2 4;stroke-linecap:round}
.st .tick{stroke-width:1;stroke-dasharray:1 5}
.st a{cursor:pointer}
"""

_COLOURS: Final = """\
.st .paper{{fill:{paper}}}
.st text{{fill:{ink}}}
.st .quiet,.st .concurrent .name{{fill:{muted}}}
.st .halo{{stroke:{paper}}}
.st .tag{{fill:{tag};stroke:{tag_border}}}
.st .lane,.st .tick{{stroke:{lane}}}
.st .gap{{fill:{muted}}}
.st .arrow{{stroke:{message}}}
.st .head{{fill:{message}}}
.st .open{{stroke:{message}}}
.st .dot{{fill:{ink};stroke:{ink}}}
.st .run{{fill:{tag};stroke:{ink}}}
.st .concurrent .dot{{fill:{paper};stroke:{muted}}}
.st .past .dot,.st .future .dot{{fill:{paper}}}
.st .past .dot,.st .arrow.past,.st .span.past,.st .open.past{{stroke:{past}}}
.st .past .half,.st .head.past{{fill:{past}}}
.st .future .dot,.st .arrow.future,.st .span.future,.st .open.future{{stroke:{future}}}
.st .future .half,.st .head.future{{fill:{future}}}
.st .selected .dot{{fill:{selected};stroke:{selected}}}
.st .ring{{stroke:{selected}}}
.st .violation .dot,.st .failure .dot{{stroke:{violation};fill:{violation}}}
.st .past.violation .dot,.st .future.violation .dot,.st .concurrent.violation .dot{{fill:{paper}}}
.st .past.failure .dot,.st .future.failure .dot,.st .concurrent.failure .dot{{fill:{paper}}}
.st .past.violation .half,.st .future.violation .half{{fill:{violation}}}
.st .past.failure .half,.st .future.failure .half{{fill:{violation}}}
.st .arrow.violation,.st .open.violation{{stroke:{violation}}}
.st .head.violation{{fill:{violation}}}
.st .alarm{{fill:{violation}}}
.st .front{{stroke:{cut}}}
.st .badge{{fill:{ink}}}
.st .badge-text{{fill:{paper}}}
.st .warning{{fill:{future};font-weight:600}}
"""


def style_sheet(theme: Theme) -> str:
    """The rules for one drawing, all below the class `st` so that a page may contain several."""
    base = DARK if theme is Theme.DARK else LIGHT
    rules = _SHAPES % FONT + _colours(base)
    if theme is Theme.AUTO:
        rules += "@media (prefers-color-scheme:dark){\n" + _colours(DARK) + "}\n"
    return rules


def _colours(palette: Palette) -> str:
    names = Palette.__dataclass_fields__
    return _COLOURS.format(**{name: getattr(palette, name) for name in names})
