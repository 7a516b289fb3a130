"""The frame of a page: one HTML document that needs nothing but itself.

1. Nothing is fetched: the content security policy allows our style sheets and our one script, by their hashes, and
   no other source of anything. Markup that slipped in could not run.
2. Data for the script stands in a block of JSON that cannot end the element that it stands in.
3. Drawings keep their look when several share a page: their style sheets and arrowheads, which are the same for
   all, stand there once, so that no id occurs twice.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from typing import Final

from beforehand.diagram.page.markup import Markup, element, joined

__all__ = ["Drawings", "asset", "document", "json_block"]

_STYLE: Final = re.compile(r"<style[^>]*>\s*(?:<!\[CDATA\[)?(.*?)(?:\]\]>)?\s*</style>", re.DOTALL)
_DEFS: Final = re.compile(r"<defs>.*?</defs>", re.DOTALL)
_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def asset(package: str, name: str) -> str:
    """A style sheet or script that is a file of the package."""
    return (files(package) / name).read_text(encoding="utf-8")


def document(
    *, title: str, style: str, script: str, body: Iterable[str], description: str = "", inner_style: str = ""
) -> str:
    """The whole page. `style` and `script` are ours: they go in as they are.

    `inner_style` is a style sheet that stands in the body, in the frame of diagrams.
    """
    styles = [one for one in (style, inner_style) if one]
    policy = "; ".join(
        [
            "default-src 'none'",
            "style-src " + " ".join(f"'{_hash(one)}'" for one in styles),
            f"script-src '{_hash(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    head = [
        element("meta", charset="utf-8"),
        # Our own constants and hashes; escaped quotes would be right too, but hard to read.
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="description", content=description) if description else Markup(),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n'
        + "\n".join(head)
        + "\n</head>\n<body>\n"
        + "\n".join(joined([part]) for part in body)
        + f"\n<script>{script}</script>\n</body>\n</html>\n"
    )


def json_block(name: str, value: object) -> Markup:
    """Data for the script. ASCII only, and no character that means something to HTML."""
    written = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character, stand_in in _ESCAPES.items():
        written = written.replace(character, stand_in)
    return Markup(f'<script type="application/json" id="{name}">{written}</script>')


@dataclass(slots=True)
class Drawings:
    """Drawings by `to_svg` that share a page. Ask for `style` and `definitions` after the last `take`."""

    _styles: dict[str, None] = field(default_factory=dict)
    _definitions: dict[str, None] = field(default_factory=dict)

    def take(self, svg: str) -> Markup:
        """The drawing without what the page holds for all. It is trusted: `to_svg` has escaped its texts."""
        # No text of an event can match here: its `<` is escaped.
        for match in _STYLE.finditer(svg):
            self._styles[match[1].strip()] = None
        for match in _DEFS.finditer(svg):
            self._definitions[match[0]] = None
        return Markup(_DEFS.sub("", _STYLE.sub("", svg)).strip())

    @property
    def style(self) -> str:
        return "\n".join(self._styles)

    @property
    def definitions(self) -> Markup:
        """Not `display: none`: browsers then lose the arrowheads."""
        if not self._definitions:
            return Markup()
        inner = Markup("".join(self._definitions))
        return element(
            "svg", inner, class_="st definitions", width=0, height=0, aria_hidden="true", focusable="false"
        )


def _hash(content: str) -> str:
    return "sha256-" + b64encode(sha256(content.encode()).digest()).decode()
