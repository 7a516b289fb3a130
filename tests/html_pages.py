"""Reading our pages without a browser."""

from __future__ import annotations

import json
from collections import Counter
from html.parser import HTMLParser

__all__ = ["Page"]

VOID = {"br", "col", "input", "link", "meta"}


class Page(HTMLParser):
    """Elements, ids, texts and addresses; complains about what is not closed."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.names: set[str] = set()  # Of attributes.
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(document)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        for name, value in attrs:
            self.names.add(name)
            if name == "id":
                self.ids[value or ""] += 1
            if name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                self.addresses.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # SVG closes its elements so.
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] in ("script", "style") else self.texts).append(data)

    @property
    def data(self) -> dict[str, list[dict[str, object]]]:
        (block,) = (one for one in self.scripts if one.startswith("{"))
        found = json.loads(block)
        assert isinstance(found, dict)
        return found

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())
