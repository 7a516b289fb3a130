"""Answers as HTML for a notebook: tables of text. Whatever events say is text, never markup, and cannot hide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from beforehand.diagram.page.times import rfc3339
from beforehand.diagram.text import visible
from beforehand.events import Event, EventId

__all__ = ["event_table", "paragraph", "shown", "table"]

_TEXT_MAX = 300


def shown(text: object, limit: int = _TEXT_MAX) -> str:
    """Text from strangers, for a page."""
    return f"<bdi>{escape(visible(str(text), limit))}</bdi>"


def paragraph(html: str) -> str:
    return f"<p>{html}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of HTML; the first column is left, as all are."""
    top = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def event_table(events: Iterable[Event], marked: EventId | None = None) -> str:
    """Events in the order that they come in."""
    rows = []
    for event in events:
        more = [*(f"sends {m}" for m in event.sends), *(f"receives {m}" for m in event.receives)]
        more += [f"{key}={value}" for key, value in event.attributes.items()]
        name = shown(event.id)
        rows.append(
            (
                f"<b>{name}</b>" if event.id == marked else name,
                "" if event.time is None else rfc3339(event.time),
                shown(event.name),
                shown(", ".join(more)),
            )
        )
    return table(("event", "time", "name", "what else"), rows)
