"""When the rows of an ordering clock's table changed: what a message must bring to one who knows an earlier event.

Guarantee: let r know event k of this process p. Each entry of p's table as it was after k is then in r's table, or
its destination has received all that it stands for, at an event that r knows of. So only entries that changed after k
are of use to r.

Why: r learned of k by a chain of messages. The first of them was sent by p at k or later. If later, it carried the
table as it was after k; if at k itself, it lacked only the row of its own destination, which received it. Whoever
receives a message merges its table, except for the row about itself: that row it waited for, so it knows it as
received. The next message of the chain has all the others again.

Cost: a number for each entry of the table; asking takes time in proportion to the rows and to what changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from beforehand.clocks.vector import VectorClock, VectorStamp, _news

__all__ = ["TableChanges"]


class TableChanges:
    """Of one ordering clock, which calls it under its lock."""

    def __init__(self, table: Mapping[str, VectorStamp], count: int) -> None:
        """All that stands in the table counts as changed at our event `count`."""
        # Per destination and process, our event at which the entry changed last, in the order of changes.
        self._rows: Final = {destination: dict.fromkeys(row._all(), count) for destination, row in table.items()}
        self._sent_at: Final[dict[str, int]] = {}  # Per destination our last send to it: its row covers that.

    def since(self, table: Mapping[str, VectorStamp], count: int) -> dict[str, dict[str, int]]:
        """The entries that changed after our event `count`; no row is empty."""
        found: dict[str, dict[str, int]] = {}
        for destination, changed in self._rows.items():
            for process, at in reversed(changed.items()):
                if at <= count:
                    break
                found.setdefault(destination, {})[process] = table[destination][process]
        return found

    def replaced(self, destination: str, before: VectorStamp | None, time: VectorStamp, clock: VectorClock) -> None:
        """A message is sent now: its time, which covers what stood there, is the new row."""
        last = self._sent_at.get(destination)
        if last is not None:
            grown = [*clock.since(last), clock.process]  # The row covered `last`: nothing else can have grown.
        else:
            grown = list(_news({} if before is None else before._all(), time._all()))
        self._note(destination, grown, clock.count)
        self._sent_at[destination] = clock.count

    def merged(self, destination: str, before: VectorStamp, time: VectorStamp, count: int) -> None:
        """A message was received at our event `count`: its row joins what stood `before`."""
        self._note(destination, list(_news(before._all(), time._all())), count)

    def _note(self, destination: str, grown: list[str], count: int) -> None:
        changed = self._rows.setdefault(destination, {})
        for process in grown:
            changed.pop(process, None)  # So that it moves to the end.
            changed[process] = count
