"""The demo's page: one self-contained file. All text from events is escaped."""

from __future__ import annotations

from html import escape
from typing import Final

from beforehand.diagram import LayoutOptions, Marks, draw
from beforehand.events import Event, EventId
from beforehand.history import CheckReport, Explanation, History

__all__ = ["page"]

EVENTS_DRAWN: Final = 28

_STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 96rem; margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.scroll { overflow-x: auto; border: 1px solid #8884; border-radius: 8px; padding: .5rem; }
table { border-collapse: collapse; } td, th { padding: .15rem 1rem .15rem 0; text-align: left; }
tr.failure { font-weight: 600; } code { font-family: ui-monospace, monospace; }
"""


def page(history: History, explanation: Explanation, report: CheckReport) -> str:
    failure = explanation.event
    shown = [*explanation.events, failure]
    parts = [
        f"<h1>{escape(failure.name)}</h1>",
        (
            f"<p><code>{escape(str(failure.id))}</code>. {explanation.past} events could have led to it, of "
            f"{len(history)} in all. These are the last {len(explanation.events)}, in causal order; the failure "
            "comes last.</p>"
        ),
        _table(shown, failure),
        "<h2>The same as a picture</h2>",
        _picture(
            history,
            Marks(selected=failure.id, past=_ids(history.past(failure)), future=_ids(history.future(failure))),
        ),
    ]
    for violation in report.violations:
        reasons = "".join(f"<li>{escape(sentence)}</li>" for sentence in violation.reasons)
        marks = Marks(
            violating_messages=frozenset(violation.messages[:1]), violations=frozenset(violation.events[-2:])
        )
        parts += [
            f"<h2>{escape(violation.kind.capitalize())} order is violated</h2>",
            f"<p>{escape(violation.why)}.</p><ul>{reasons}</ul>",
            _picture(history, marks),
        ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(failure.name)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _picture(history: History, marks: Marks) -> str:
    """The events nearest to what is marked, out of the whole history, so that no message looks lost that is not."""
    picture = draw(history.order(), marks=marks, options=LayoutOptions(events_max=EVENTS_DRAWN))
    return f'<div class="scroll">{picture}</div>'


def _ids(events: list[Event]) -> frozenset[EventId]:
    return frozenset(event.id for event in events)


def _table(events: list[Event], failure: Event) -> str:
    rows = []
    for event in events:
        kind = ' class="failure"' if event is failure else ""
        carried = ", ".join([*(f"sends {m}" for m in event.sends), *(f"receives {m}" for m in event.receives)])
        cells = (f"<code>{escape(str(event.id))}</code>", escape(event.name), escape(carried))
        rows.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><tr><th>event</th><th>what happened</th><th>messages</th></tr>{''.join(rows)}</table>"
