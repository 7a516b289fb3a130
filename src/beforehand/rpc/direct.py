"""The short way of a difference, in and out: the same as the long one, with fewer steps between.

Between two calls everything falls out of the processor's caches, and so each function that is called costs several
times what it does in a loop. Most messages are differences with one base, of which all is in order. For these the
steps are here, in one place, each message under one lock: that of the clock, whose fields are used as they are.
Whatever else comes, nothing has happened yet and the long way takes it: bad data, refusals, several bases, full
stamps, reporters, lanes, causal ordering.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import Final

import msgspec

from beforehand.clocks.wire import VALUE_MAX
from beforehand.errors import BeforehandError
from beforehand.rpc.differences import Base, Difference, Link
from beforehand.rpc.lane import Lane
from beforehand.rpc.policies import Counter
from beforehand.rpc.remembered import Remembered

__all__ = ["CHANGES_MAX", "Direct"]

CHANGES_MAX: Final = 64
"""More of them may be above a limit, or shorter as a full stamp: the long way decides."""


class Direct:
    """Of a process without reporter, lanes or ordering. Usable from any thread."""

    def __init__(
        self, lane: Lane, counter: Counter, remembered: Remembered, known: Callable[[str], bool] | None
    ) -> None:
        self._clock: Final = lane.clock
        self._lock: Final = lane.clock.locked()
        self._process: Final = lane.process
        self._life: Final = lane.life
        self._counter: Final = counter
        self._remembered: Final = remembered
        self._known: Final = known
        self._encode: Final = msgspec.msgpack.Encoder().encode
        self._decode: Final = msgspec.msgpack.Decoder(Difference).decode
        self.sent = 0  # Messages that went the short way. Changed under the lock, as the next.
        self.received = 0

    def ask(self, link: Link, limit: int) -> str | None:
        """An event that sends a request: the text of its difference. None: nothing happened."""
        base = link._one
        return None if base is None or link._own != self._life else self.out(base, limit)

    def heard(self, link: Link, text: str, limit: int) -> bool:
        """An event that receives the reply to such a request. False: nothing happened."""
        base = self.take(text, limit)
        if base is None:
            return False
        link.answered(self._life, base)
        return True

    def out(self, base: Base, limit: int) -> str | None:
        """An event that sends a difference to `base`: its text. None: nothing happened."""
        clock, mine, told = self._clock, base.mine, base.told
        with self._lock:
            count, changed, others = clock._count + 1, clock._changed, clock._others
            if count > VALUE_MAX or changed is None or not mine:
                return None
            changes: dict[str, int] = {}
            for process, at in reversed(changed.items()):  # As `VectorClock.since`.
                if at <= mine:
                    break
                known = others[process]
                if told.get(process) != known:
                    changes[process] = known
            # Written before the event happens: so it can still go the long way.
            data = self._encode((self._process, count, self._life, {base.life: base.event}, changes))
            text = b2a_base64(data, newline=False).decode()
            if len(text) > limit or len(changes) > CHANGES_MAX:
                return None
            clock._count = count
            self.sent += 1
        return text

    def take(self, text: str, limit: int) -> Base | None:
        """An event that receives a difference: the event that sent it. None: nothing happened."""
        if len(text) > limit:
            return None
        clock, remembered = self._clock, self._remembered
        try:
            found = self._decode(a2b_base64(text, strict_mode=True))
            sender, event, changes = found.sender, found.count, found.changes
            mine = found.bases.get(self._life)
            if mine is None or sender in changes:
                return None
            is_plain = not changes
            changes[sender] = event
            if self._known is not None and not all(self._known(name) for name in changes):
                return None
            with self._lock:
                count, others, changed = clock._count, clock._others, clock._changed
                if mine > count or count >= VALUE_MAX:
                    return None
                before = others.get(sender, 0)  # Of ourselves there is no entry.
                if is_plain and 0 < before < event and changed is not None and not clock._shared:
                    del changed[sender]  # So that it moves to the end.
                    changed[sender] = clock._count = count + 1
                    others[sender] = event
                else:
                    clock.receive_entries(changes)
                if 0 < before < event and not remembered.open:
                    remembered.recent.append((sender, event))
                elif remembered.note(sender, event):
                    remembered.close(sender, event)
                else:
                    self._counter.add("received_again")
                self.received += 1
        except (msgspec.MsgspecError, ValueError, RecursionError, BeforehandError):
            return None
        return Base(sender, found.life, event, mine, changes)
