"""What members of a real group did, as a `Record`: so that one judge judges real runs and simulated ones.

A journal (`read_journal` of `runtime`) has what a member sent, delivered and set aside, and the views it installed,
in order, exactly once across kills. It does not say whom a message went to, nor its place or level: all messages are
taken to be for all members of their sender's view, at the highest level that the order offers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.ordering import Discard, Message, Reason, Traits
from beforehand.sim.record import Record

__all__ = ["record_of"]

_VIEW: Final = re.compile(r"view (\d+): (.+)")
_SET_ASIDE: Final = re.compile(r"set aside (\S+): (.+)")


def record_of(
    journals: Mapping[str, Sequence[Event]],
    members: Iterable[str],
    traits: Traits,
    *,
    stopped: Iterable[str] = (),
    acknowledged: Mapping[str, Collection[str]] | None = None,
) -> Record:
    """`members` are those of the first view; `stopped` are those that stopped for good, evicted or not.

    Who is in no last view of the others has left. `acknowledged` are messages that a process was told are stable.
    """
    record = Record()
    first = tuple(members)
    for process, journal in journals.items():
        view = first
        record.delivered[process] = []
        for event in journal:
            if event.sends:
                message = _message(event.sends[0], view, traits)
                record.sent[message.id] = (message, event.time or 0)
            if event.receives:
                record.delivered[process].append(event.receives[0])
            if found := _VIEW.fullmatch(event.name or ""):
                view = tuple(found[2].split(" "))
                installed = (int(found[1]), view, len(record.delivered[process]))
                record.views.setdefault(process, []).append(installed)
            record.events.append(event)
    for process, journal in journals.items():
        for event in journal:
            if found := _SET_ASIDE.fullmatch(event.name or ""):
                if found[1] not in record.sent:
                    raise InputError(f"{process} set aside {found[1]}, which is in no journal as sent")
                record.discarded.append((process, Discard(message=record.sent[found[1]][0], reason=Reason(found[2]))))
    _, last = max(
        ((number, view) for views in record.views.values() for number, view, _ in views), default=(0, first)
    )
    record.departed = dict.fromkeys([*stopped, *(process for process in journals if process not in last)], 0)
    record.acknowledged = {process: set(ids) for process, ids in (acknowledged or {}).items()}
    return record


def _message(message_id: str, view: tuple[str, ...], traits: Traits) -> Message:
    sender, _, number = message_id.rpartition(".")
    return Message(sender=sender, number=int(number), to=view, payload=b"", level=traits.levels[-1])
