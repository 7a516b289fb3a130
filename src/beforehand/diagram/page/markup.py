"""HTML and SVG by construction: text from strangers cannot become markup.

`element` takes finished `Markup` or plain text, and plain text is always made visible and escaped, in children and in
attribute values alike. So a piece of markup is safe if its parts are, and only `Markup(...)` written out by hand has
to be read with care.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from beforehand.diagram.text import visible

__all__ = ["TEXT_MAX", "Markup", "element", "joined", "text"]

TEXT_MAX: Final = 2_000
"""Characters of one text that are shown; what is longer ends in an ellipsis."""

_VOID: Final = frozenset({"br", "col", "input", "link", "meta"})  # Elements of HTML without an end.


class Markup(str):
    """Text that is markup already. Made here, or by hand from constants."""

    __slots__ = ()


def text(value: str, limit: int = TEXT_MAX) -> Markup:
    """The text as markup: on one line, cut, with stand-ins for what cannot be shown, escaped."""
    return Markup(escape(visible(value, limit), quote=True))


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """Pieces in a row, each escaped unless it is markup."""
    safe_between = between if isinstance(between, Markup) else text(between)
    return Markup(safe_between.join(part if isinstance(part, Markup) else text(part) for part in parts))


def element(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """One element. `class_` is `class`, `aria_label` is `aria-label`; None and False leave an attribute out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(children)}</{name}>")


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if isinstance(value, float):
        value = f"{value:.2f}".rstrip("0").rstrip(".")
    return f' {name}="{value if isinstance(value, Markup) else text(str(value))}"'
