"""What a reader sees when pointing at an event or at a message: the whole record, as plain text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from beforehand.diagram.model import Arrow, ArrowKind, Place
from beforehand.diagram.text import visible
from beforehand.events import Event

__all__ = ["arrow_text", "place_text"]

_ATTRIBUTES_MAX: Final = 20
_IDS_MAX: Final = 10
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_KIND_TEXTS: Final = {
    ArrowKind.MESSAGE: "",
    ArrowKind.OWN: "delivered to its own sender",
    ArrowKind.BACKWARDS: "backwards: against the direction of this diagram",
    ArrowKind.UNRECEIVED: "never received",
    ArrowKind.UNSENT: "received, but no event sent it",
    ArrowKind.ONWARD: "received by an event that is not drawn",
    ArrowKind.INCOMING: "sent by an event that is not drawn",
}


def place_text(place: Place) -> str:
    first = place.events[0]
    if place.count > 1:
        return f"{visible(str(first.id))} to {place.events[-1].index}\n{place.count} local events"
    lines = [f"{visible(str(first.id))} · {first.kind}"]
    if first.name:
        lines.append(visible(first.name))
    if place.failure:
        lines.append("a failure")
    lines.append(_time_text(first, untimed=place.untimed))
    for key, value in sorted(first.attributes.items())[:_ATTRIBUTES_MAX]:
        lines.append(f"{visible(key, 100)}: {visible(value, 200)}")
    if len(first.attributes) > _ATTRIBUTES_MAX:
        lines.append(f"and {len(first.attributes) - _ATTRIBUTES_MAX} more attributes")
    for verb, ids in (("receives", first.receives), ("sends", first.sends)):
        if ids:
            lines.append(f"{verb} {_list(ids)}")
    return "\n".join(line for line in lines if line)


def arrow_text(arrow: Arrow) -> str:
    if not arrow.messages:
        return f"The clock of {visible(str(arrow.receive))} is behind that of the event before it"
    ends = f"{_end(arrow.send)} → {_end(arrow.receive)}"
    lines = [f"message {_list(arrow.messages)}", ends, _KIND_TEXTS[arrow.kind]]
    if arrow.inferred:
        lines.append("inferred: no source named this message")
    return "\n".join(line for line in lines if line)


def _end(event: object) -> str:
    return "?" if event is None else visible(str(event))


def _list(ids: Iterable[str]) -> str:
    shown = list(ids)
    more = f" and {len(shown) - _IDS_MAX} more" if len(shown) > _IDS_MAX else ""
    return ", ".join(visible(one, 80) for one in shown[:_IDS_MAX]) + more


def _time_text(event: Event, *, untimed: bool) -> str:
    if event.time is None:
        return "no time: this place is an estimate" if untimed else ""
    seconds, nanoseconds = divmod(event.time, 10**9)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{nanoseconds:09}".rstrip("0") if nanoseconds else ""
    return f"{text}{fraction}Z"
