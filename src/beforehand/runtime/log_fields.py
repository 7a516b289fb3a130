"""What the log records of a group say to machines, beside their text: the fields of `logging`'s `extra`.

One vocabulary for all records of the logger `beforehand.runtime`: a formatter finds each field as an attribute of the
record. What is not known where a record is made is not there.
"""

from __future__ import annotations

from typing import Final, Literal, TypedDict, Unpack, get_args

__all__ = ["EVENTS", "FIELDS", "Known", "LogEvent", "LogFields"]

LogEvent = Literal[
    "broker-failed",
    "connection-failed",
    "connection-refused",
    "handler-failed",
    "message-set-aside",
    "packet-refused",
    "packet-too-large",
    "peer-refused",
    "peer-unknown",
    "peer-unreachable",
    "view-installed",
]
"""What a record tells of. The word stays, where the text of a record may change."""

EVENTS: Final[tuple[str, ...]] = get_args(LogEvent)


class Known(TypedDict, total=False):
    """What may be known beside who logs."""

    view: int
    members: tuple[str, ...]
    message_id: str  # `logging` has `message` for the text.
    peer: str
    address: str
    reason: str
    packet_bytes: int
    packet_bytes_max: int


FIELDS: Final = ("event", "group", "member", *Known.__annotations__)


class LogFields:
    """Of one member: called for the `extra` of a record."""

    def __init__(self, group: str, member: str) -> None:
        """`group` is NAME/ORDER, as members call it to each other; `member` is who logs."""
        self._who: Final = {"group": group, "member": member}

    def __call__(self, event: LogEvent, **known: Unpack[Known]) -> dict[str, object]:
        return {"event": event, **self._who, **known}
