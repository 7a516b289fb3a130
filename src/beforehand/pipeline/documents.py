"""The JSON documents that commands and reports share."""

from __future__ import annotations

from typing import Any

from beforehand.events import Event

__all__ = ["event_record"]


def event_record(event: Event) -> dict[str, Any]:
    """An event as the JSON documents have it."""
    return {
        "id": str(event.id),
        "process": event.process,
        "index": event.index,
        "kind": event.kind.value,
        "name": event.name,
        "sends": list(event.sends),
        "receives": list(event.receives),
        "time": event.time,
        "attributes": dict(event.attributes),
    }
