"""The neighbourhood of an event, for a picture or an excerpt: its last past, its first future, what was beside it.

What an event is to the chosen one (past, future or concurrent) is exact. Which events are taken is a choice: the last
of the past, the first of the future and the nearest concurrent ones in the deterministic order, looked for in the
event's own block and its two neighbours.

`beyond` holds the other ends of messages that cross the border of the choice, each with these messages only, so that
no message looks lost or unsent that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from beforehand.diagram import Marks
from beforehand.errors import InputError
from beforehand.events import Event, EventId
from beforehand.history import History
from beforehand.pipeline.schemas import (
    MESSAGE,
    NUMBER,
    OUTCOME,
    RECEIVE_INDEX,
    RECEIVED,
    RECEIVER,
    SEND_INDEX,
    SENDER,
)
from beforehand.pipeline.stored.blocks import Place
from beforehand.pipeline.stored.past import newest_first
from beforehand.pipeline.stored.relating import Point, place_point

if TYPE_CHECKING:
    from beforehand.pipeline.stored.history import StoredHistory

__all__ = ["Surroundings", "around"]

Integers = npt.NDArray[np.int64]

PEERS_MAX: Final = 3
"""Receivers of one message that are taken in, beside those chosen."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Events around one, in the deterministic order."""

    events: tuple[Event, ...]
    beyond: tuple[Event, ...]
    marks: Marks


def around(history: StoredHistory, event: EventId | str | Event, count: int) -> Surroundings:
    """About `count` events of the past, half as many of the future and as many concurrent ones."""
    if count < 1:
        raise InputError(f"count is {count}: it must be at least 1")
    one = history.find_id(event)
    if history.is_cut(one.execution):
        found = _Cut(history, one, count).surroundings()
    else:
        found = _small(history.history(one.execution), one, count)
    return replace(found, marks=history.marked(found.marks, one.execution, (*found.events, *found.beyond)))


def _shares(count: int) -> tuple[int, int, int]:
    return count, (count + 1) // 2, (count + 3) // 4


def _small(history: History, one: EventId, count: int) -> Surroundings:
    past_count, future_count, beside = _shares(count)
    past = history.explain(one, last=past_count).events
    future = history.future(one)[:future_count]
    place = {event.id: at for at, event in enumerate(history.order())}
    apart = history.concurrent(one)
    before = [event for event in apart if place[event.id] < place[one]][-beside:]
    after = [event for event in apart if place[event.id] > place[one]][:beside]
    chosen = sorted([*past, *future, *before, *after, history.event(one)], key=lambda event: place[event.id])
    ends = {event.id for event in chosen}
    columns = history.columns
    links: list[tuple[EventId, str, EventId]] = []
    receive_row = columns.receive_row
    for r, message in enumerate(columns.receive_message.tolist()):
        sent = int(columns.send[message])
        if sent >= 0:
            pair = (columns.event_id(sent), columns.event_id(int(receive_row[r])))
            if pair[0] in ends or pair[1] in ends:
                links.append((pair[0], columns.messages[message], pair[1]))
    beyond = _beyond(ends, links, history.event)
    marks = Marks(
        selected=one,
        past=frozenset(e.id for e in (*chosen, *beyond) if history.happened_before(e.id, one)),
        future=frozenset(e.id for e in (*chosen, *beyond) if history.happened_before(one, e.id)),
    )
    return Surroundings(tuple(chosen), tuple(beyond), marks)


def _beyond(
    ends: set[EventId], links: Iterable[tuple[EventId, str, EventId]], read: Callable[[EventId], Event]
) -> list[Event]:
    """The other ends of messages from and to what was chosen, with these messages only."""
    sends: dict[EventId, list[str]] = {}
    receives: dict[EventId, list[str]] = {}
    taken: dict[tuple[EventId, str], int] = {}
    for sender, message, receiver in links:
        if sender not in ends and receiver in ends:
            sends.setdefault(sender, []).append(message)
        elif sender in ends and receiver not in ends:
            taken[sender, message] = taken.get((sender, message), 0) + 1
            if taken[sender, message] <= PEERS_MAX:
                receives.setdefault(receiver, []).append(message)
    return [
        replace(
            read(peer),
            sends=tuple(dict.fromkeys(sends.get(peer, ()))),
            receives=tuple(dict.fromkeys(receives.get(peer, ()))),
        )
        for peer in sorted({*sends, *receives})
    ]


class _Cut:
    """The same for an execution that was cut into blocks."""

    def __init__(self, history: StoredHistory, one: EventId, count: int) -> None:
        self.scanner = history.scanner
        self.of = history.cut_execution(one.execution)
        self.one = one
        self.point: Point = (self.of.members[one.process], one.index)
        self.place = self.of.sure_place(*self.point)
        self.stamp = self.of.stamp(self.place)
        self.count = count

    def surroundings(self) -> Surroundings:
        of = self.of
        past_count, future_count, beside = _shares(self.count)
        past = list(islice(newest_first(of, self.place, self.stamp), past_count))
        places = {*past, self.place, *self._near(future_count, beside)}
        points = {place: place_point(of, place) for place in places}
        ordered = sorted(places, key=lambda place: self._key(place, points[place]))
        by_block: dict[int, list[int]] = {}
        for place in ordered:
            by_block.setdefault(place.block, []).append(place.row)
        read = {
            Place(block, row): event
            for block, rows in by_block.items()
            for row, event in zip(rows, of.events(block, rows), strict=True)
        }
        chosen = [read[place] for place in ordered]
        beyond = _beyond(
            {event.id for event in chosen},
            self._links(ordered, points, read),
            lambda peer: of.event(of.sure_place(of.members[peer.process], peer.index)),
        )
        ids = [event.id for event in (*chosen, *beyond)]
        roles = {one: self._role(one) for one in ids if one != self.one}
        marks = Marks(
            selected=self.one,
            past=frozenset(one for one, role in roles.items() if role == "past"),
            future=frozenset(one for one, role in roles.items() if role == "future"),
        )
        return Surroundings(tuple(chosen), tuple(beyond), marks)

    def _key(self, place: Place, point: Point) -> tuple[int, int, int, int]:
        keys = self.of.keys(place.block)
        return int(keys.causal_time[place.row]), int(keys.past_size[place.row]), *point

    def _near(self, future_count: int, beside: int) -> list[Place]:
        """The first of the future, and the nearest of what is concurrent, in this block and its neighbours."""
        of = self.of
        at = int(np.searchsorted(of.full, self.place.block))
        parts = []
        for block in of.full[max(at - 1, 0) : at + 2].tolist():
            keys = of.keys(block)
            member = np.repeat(np.arange(of.width), of.sizes[block])
            future = np.zeros(member.size, np.bool_)
            if block >= self.place.block:
                future = of.knowledge(block, self.point[0])[0] >= self.point[1]
            apart = ~future & (keys.index > self.stamp[member])
            rows = np.flatnonzero(future | apart)
            rows = rows[(rows != self.place.row) | (block != self.place.block)]
            parts.append(
                np.stack(
                    [
                        keys.causal_time[rows],
                        keys.past_size[rows],
                        member[rows],
                        keys.index[rows],
                        np.full(rows.size, block),
                        rows,
                        future[rows],
                    ],
                    axis=1,
                )
            )
        table = np.concatenate(parts)
        table = table[np.lexsort(table[:, 3::-1].T)]
        coming = table[table[:, 6] == 1][:future_count]
        apart = table[table[:, 6] == 0]
        own = self._key(self.place, self.point)
        less = _before(apart, own)
        near = np.concatenate([coming, apart[less][-beside:], apart[~less][:beside]])
        return [Place(block, row) for block, row in near[:, 4:6].tolist()]

    def _links(
        self, places: list[Place], points: dict[Place, Point], read: dict[Place, Event]
    ) -> list[tuple[EventId, str, EventId]]:
        of = self.of
        links = []
        for place in places:
            receiver = of.event_id(*points[place])
            for (sender, send), message in zip(of.sources(place), read[place].receives, strict=True):
                if sender >= 0:
                    links.append((of.event_id(sender, send), message, receiver))
        sending = [points[place] for place in places if read[place].sends]
        if sending:
            sql = f"""
                SELECT "{SENDER}", "{SEND_INDEX}", "{MESSAGE}", "{RECEIVER}", "{RECEIVE_INDEX}"
                FROM {self.scanner.messages()} WHERE "{NUMBER}" = ? AND "{OUTCOME}" = '{RECEIVED}'
                AND ("{SENDER}", "{SEND_INDEX}") IN (SELECT unnest(?::INTEGER[]), unnest(?::BIGINT[]))
                ORDER BY ALL"""  # noqa: S608
            values = (of.number, [member for member, _ in sending], [index for _, index in sending])
            links += [
                (of.event_id(sender, send), message, of.event_id(receiver, receive))
                for sender, send, message, receiver, receive in self.scanner.rows(sql, values)
            ]
        return links

    def _role(self, one: EventId) -> str:
        member = self.of.members[one.process]
        if one.index <= self.stamp[member]:
            return "past"
        place = self.of.sure_place(member, one.index)
        if place.block < self.place.block:
            return "concurrent"
        known, _ = self.of.knowledge(place.block, self.point[0])
        return "future" if known[place.row] >= self.point[1] else "concurrent"


def _before(table: Integers, own: tuple[int, int, int, int]) -> npt.NDArray[np.bool_]:
    """Which rows come before a key, comparing the first four columns one after the other."""
    less = np.zeros(len(table), np.bool_)
    equal = np.ones(len(table), np.bool_)
    for column, value in enumerate(own):
        less |= equal & (table[:, column] < value)
        equal &= table[:, column] == value
    return less
