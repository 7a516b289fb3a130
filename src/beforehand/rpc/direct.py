"""The short way of a difference, in and out: the same as the long one, with fewer steps between.

Between two calls everything falls out of the processor's caches, and so each function that is called costs several
times what it does in a loop. Most messages are differences with one base, of which all is in order. For these the
steps are here, in one place. Whatever else comes, nothing has happened yet and the long way takes it: bad data,
refusals, several bases, full stamps, reporters, lanes, causal ordering.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from beforehand.errors import BeforehandError
from beforehand.rpc.admission import Admission
from beforehand.rpc.differences import Base, Difference
from beforehand.rpc.headers import DIFFERENCE_HEADER
from beforehand.rpc.lane import Lane

__all__ = ["Direct"]

_CHANGES_MAX: Final = 64  # More of them may be above a limit, or shorter as a full stamp: the long way decides.


class Direct:
    """Of a process without reporter, lanes or ordering. Usable from any thread."""

    def __init__(self, lane: Lane, admission: Admission, known: Callable[[str], bool] | None) -> None:
        self._clock: Final = lane.clock
        self._lock: Final = lane.clock.locked()
        self._process: Final = lane.process
        self._life: Final = lane.life
        self._received: Final = admission.count_received
        self._known: Final = known
        self._encode: Final = msgspec.msgpack.Encoder().encode
        self._decode: Final = msgspec.msgpack.Decoder(Difference).decode

    def out(self, base: Base, limit: int) -> str | None:
        """An event that sends a difference to `base`: its text. None: nothing happened."""
        process, told = self._process, base.told
        with self._lock:
            changes = self._clock.since(base.mine)
            if changes:
                changes = {p: count for p, count in changes.items() if told.get(p) != count}
            # Written before the event happens: so it can still go the long way.
            fields = (process, self._clock.count + 1, self._life, {base.life: base.event}, changes)
            text = binascii.b2a_base64(self._encode(fields), newline=False).decode()
            if len(text) > limit or len(changes) > _CHANGES_MAX:
                return None
            self._clock.advance()
        return text

    def take(self, headers: Mapping[str, str], limit: int) -> Base | None:
        """An event that receives a difference: the event that sent it. None: nothing happened."""
        text = headers.get(DIFFERENCE_HEADER)
        if text is None or len(headers) > 1 or len(text) > limit:
            return None
        try:
            found = self._decode(binascii.a2b_base64(text, strict_mode=True))
            sender, event, changes = found.sender, found.count, found.changes
            mine = found.bases.get(self._life)
            if mine is None or mine > self._clock.count or sender in changes:
                return None
            changes[sender] = event
            if self._known is not None and not all(self._known(name) for name in changes):
                return None
            self._clock.receive_entries(changes)
        except (msgspec.MsgspecError, ValueError, RecursionError, BeforehandError):
            return None
        self._received(f"{sender}:{event}")
        return Base(sender, found.life, event, mine, changes)
