"""The building blocks of the report page: sections, tables, pictures, and lists that are cut with a word about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.diagram.page.figure import Figure
from beforehand.diagram.page.markup import Markup, element, joined
from beforehand.pipeline.report.text import amount_text, mapping_of, string_of

__all__ = [
    "Cell",
    "Picture",
    "Section",
    "attributes_of",
    "code",
    "figure",
    "more",
    "paragraph",
    "picture",
    "region",
    "table",
]

_ATTRIBUTES_MAX: Final = 12
_KEY_MAX: Final = 80
_VALUE_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page, with its place in the list of contents."""

    id: str
    title: str
    body: Markup
    badge: str = ""  # A count beside the title in the list of contents.

    def written(self) -> Markup:
        heading = element("h2", self.title, id=f"{self.id}-title")
        return element("section", heading, self.body, id=self.id, aria_labelledby=f"{self.id}-title")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with the value that sorting goes by, and how it stands."""

    content: Markup
    value: int | float | str | None = None
    numeric: bool = False


def code(text: object, limit: int = 200) -> Markup:
    """An id, a path, a line: something to be copied. What is cut stands whole in the tooltip, up to a limit."""
    shown = string_of(text)
    cut = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    return element("code", cut, title=shown if cut != shown else None)


def paragraph(*children: str, class_: str | None = None) -> Markup:
    return element("p", *children, class_=class_)


def region(label: str, *children: str) -> Markup:
    """Something wide: it scrolls by itself, with the keyboard too, and the page does not."""
    return element("div", *children, class_="scroll", role="region", aria_label=label, tabindex=0)


def table(
    label: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Markup | Cell]],
    *,
    sortable: bool = False,
    marked: int | None = None,
    class_: str = "",
) -> Markup:
    """A table that scrolls by itself. `marked` is the row that matters most."""
    cells = [[one if isinstance(one, Cell) else Cell(one) for one in row] for row in rows]
    numeric = [bool(cells) and all(row[at].numeric for row in cells) for at in range(len(head))]
    heads = [
        element("th", title, scope="col", class_="numeric" if right else None)
        for title, right in zip(head, numeric, strict=True)
    ]
    body = [
        element(
            "tr",
            *(
                element(
                    "td",
                    cell.content,
                    class_="numeric" if cell.numeric else None,
                    data_value=None if cell.value is None else str(cell.value) if sortable else None,
                )
                for cell in row
            ),
            class_="marked" if position == marked else None,
        )
        for position, row in enumerate(cells)
    ]
    content = element(
        "table",
        element("caption", label, class_="spoken"),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        data_sortable=sortable,
        class_=class_ or None,
    )
    return region(label, content)


def attributes_of(value: object) -> Markup:
    """The attributes of an event, each as a small label."""
    attributes = mapping_of(value)
    labels = [
        element(
            "span",
            element("b", _short(key, _KEY_MAX)),
            " ",
            _short(string_of(one), _VALUE_MAX),
            class_="attribute",
        )
        for key, one in list(attributes.items())[:_ATTRIBUTES_MAX]
    ]
    if len(attributes) > _ATTRIBUTES_MAX:
        labels.append(element("span", f"and {len(attributes) - _ATTRIBUTES_MAX} more", class_="quiet"))
    return joined(labels, Markup(" "))


@dataclass(frozen=True, slots=True)
class Picture:
    """A diagram, and its drawing without what the page holds for all."""

    figure: Figure
    drawing: Markup


def picture(pictures: Mapping[str, Picture], key: str, label: str) -> Markup:
    """The diagram that belongs to an item, if there is one. Without a script it is its drawing."""
    found = pictures.get(key)
    if found is None:
        return Markup()
    return element("figure", found.figure.host(key, region(label, found.drawing)), class_="picture")


def figure(name: str, value: Markup, sentence: str) -> Markup:
    """A figure with what it means."""
    return element(
        "div", element("dt", name), element("dd", value, class_="value"), element("dd", sentence), class_="figure"
    )


def more(total: int | float | None, shown: int, where: Markup) -> Markup:
    """That a list is longer than what is shown, and where the rest is."""
    if total is None or total <= shown:
        return Markup()
    return paragraph(f"and {amount_text(total - shown)} more; ", where, class_="quiet")


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
