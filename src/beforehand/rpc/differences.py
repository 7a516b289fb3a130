"""Stamps as differences: only what the receiver does not know already.

A stamp may be written as "all that you knew at your own event n, and these entries". Whoever takes part only ever
learns more, so the receiver knows all of that base already, and merging the entries is merging the whole stamp. It
need not keep anything about its peers, and messages may be lost, repeated, reordered or late: each one stands alone.

What makes it sound:
  1. The base is an event of the receiver, in this *life* of it. Each start of a process begins a life, named at
     random. A base of another life, or a count that was not reached, is no base here (`UnknownBaseError`): nothing
     is taken over.
  2. The sender knows that base: it is the event that sent the request which it answers, or the reply that it got.
     From that it knows which of its own events the receiver knew there (`Base.mine`), and so everything that it knew
     itself at that event. What changed after it is what it sends (`VectorClock.tick_since`).
  3. A peer that lies about the base lies about what it knows itself. That is no more than it could do with a full
     stamp, and changes nothing here but what is sent to it.

Singhal and Kshemkalyani 1992 have the same table of last changes, but count on channels that keep the order and lose
nothing: their base is whatever was sent before.

The sender keeps a `Link` per address: the last reply of each process that answered there. Several may, behind a load
balancer: a difference names up to `BASES_MAX` bases, and each receiver finds its own. One that finds none refuses
the call before the handler runs, and the caller sends it again with a full stamp, as a new message.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from secrets import token_bytes
from threading import Lock
from typing import Annotated, Final, TypeAlias

import msgspec

from beforehand.clocks import OrderingStamp, VectorStamp
from beforehand.clocks.wire import VALUE_MAX
from beforehand.errors import LocalProtocolError, StampDecodeError

__all__ = ["BASES_MAX", "Base", "Difference", "Link", "OrderedDifference", "life_of", "life_text", "new_life"]

BASES_MAX: Final = 8
_LAG_MAX: Final = 256  # Own events by which a base may be older than the newest one of its link.
_PAUSE_MAX: Final = 64  # Calls that go with full stamps after differences were refused again and again.
_PAUSE_MIN: Final = 8  # The same after the first refusal: enough to meet all that take turns behind an address.
_LIFE_BYTES: Final = 8

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=VALUE_MAX)]
_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Life: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=_LIFE_BYTES, max_length=_LIFE_BYTES)]
_Bases: TypeAlias = Annotated[dict[_Life, _Count], msgspec.Meta(min_length=1, max_length=BASES_MAX)]


class Difference(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What a message carries instead of its id and stamp: an array in MessagePack, as base64."""

    sender: _Name
    count: _Count  # Of the send event.
    life: _Life  # Of the sender.
    bases: _Bases  # Life of the receiver -> its event; more than one if it is not known who will receive.
    changes: dict[_Name, _Count]  # What the sender knows beyond the base, without its own entry.

    def text(self) -> str:
        return binascii.b2a_base64(_encoder.encode(self), newline=False).decode()

    @staticmethod
    def from_text(text: str) -> Difference:
        try:
            data = binascii.a2b_base64(text, strict_mode=True)
            found = (_ordered_decoder if data[:1] == _ARRAY_OF_7 else _decoder).decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise StampDecodeError(f"it is not a difference: {error}") from None
        if found.sender in found.changes:
            raise StampDecodeError("it is not a difference: it counts its sender twice")
        return found


class OrderedDifference(Difference, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The same in causal ordering, where the base is an event of the one receiver that it is addressed to."""

    number: _Count  # Among the messages from this sender to this receiver.
    rows: dict[_Name, Annotated[dict[_Name, _Count], msgspec.Meta(min_length=1)]]  # What changed in its table.

    def stamp(self, receiver: str, known: Callable[[str], int]) -> OrderingStamp:
        """What the receiver must know to deliver it as if it had the whole stamp. `known` is what it knows now."""
        time = {**self.changes, self.sender: self.count}
        for row in self.rows.values():
            for process in row:
                # Not said, so it was known at the base: no more than what is known here. The stamp's table must not
                # go beyond its time, and a full one would be held to the same.
                if process not in time and (here := known(process)):
                    time[process] = here
        table = {destination: VectorStamp._of(row) for destination, row in self.rows.items()}
        try:
            return OrderingStamp(self.sender, {receiver: self.number}, VectorStamp._of(time), table)
        except LocalProtocolError as error:
            raise StampDecodeError(str(error)) from None


_ARRAY_OF_7: Final = b"\x97"
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Difference)
_ordered_decoder: Final = msgspec.msgpack.Decoder(OrderedDifference)


class Base(msgspec.Struct, frozen=True):
    """An event of a peer that we heard of, and what is known of it."""

    process: str
    life: bytes
    event: int
    mine: int  # Our own event that the peer knew there, and so all that we knew then.
    told: Mapping[str, int]  # What the message itself told: the peer surely knows that too.


class Link:
    """What the processes behind one address answered last. Of one caller. Usable from any thread."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._own = b""  # The life of the caller that the bases belong to.
        self._one: Base | None = (
            None  # The base of the next request, where there is one only and it need not be full.
        )
        self._bases: dict[bytes, Base] = {}  # By life, the last to answer last; at most BASES_MAX.
        self._pause = _PAUSE_MIN  # Calls that went with full stamps after the last refusal.
        self._full = 0  # Calls that still go with full stamps.
        self._answers = _PAUSE_MAX  # Since the last refusal.

    def bases(self, own: bytes, to: str = "") -> tuple[Base, ...]:
        """For the next request of the life `own`, to one process if `to` names it. None: its stamp must be full."""
        with self._lock:
            if own != self._own:
                self._begin(own)
            if self._full:
                self._full -= 1
                self._choose()
                return ()
            return tuple([base for base in self._bases.values() if not to or base.process == to])

    def base(self, own: bytes) -> Base | None:
        """The same where there is one base only; else None, and nothing has changed."""
        with self._lock:
            return self._one if own == self._own else None

    def answered(self, own: bytes, base: Base) -> None:
        """A reply came."""
        with self._lock:
            if own != self._own:
                self._begin(own)
            self._answers += 1
            bases, life = self._bases, base.life
            before = bases.get(life)
            if before is not None and self._one is before:  # The usual case, and nothing else can change.
                if before.mine <= base.mine:
                    self._one = bases[life] = base
                return
            bases.pop(life, None)
            bases[life] = base if before is None or before.mine <= base.mine else before
            # Those that are no longer there would make all differences longer.
            for old in [old for old in bases.values() if old.mine < base.mine - _LAG_MAX]:
                del bases[old.life]
            if len(bases) > BASES_MAX:
                del bases[next(iter(bases))]
            self._choose()

    def refused(self) -> None:
        """A process behind the address knows none of the bases. It is new there; or there are too many.

        The next requests go in full, for the one that is sent again may meet another process than that which refused
        it: where two take turns, it always would.
        """
        with self._lock:
            soon = self._answers < _PAUSE_MAX
            self._full = self._pause = min(2 * self._pause, _PAUSE_MAX) if soon else _PAUSE_MIN
            self._answers = 0
            self._choose()

    def _begin(self, own: bytes) -> None:
        self._own, self._bases, self._one = own, {}, None

    def _choose(self) -> None:
        self._one = next(iter(self._bases.values())) if len(self._bases) == 1 and not self._full else None


def new_life() -> bytes:
    return token_bytes(_LIFE_BYTES)


def life_text(life: bytes) -> str:
    return binascii.b2a_base64(life, newline=False).decode()


def life_of(text: str) -> bytes:
    try:
        life = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise StampDecodeError("the name of its life is not base64") from None
    if len(life) != _LIFE_BYTES:
        raise StampDecodeError(f"the name of its life has {len(life)} bytes, not {_LIFE_BYTES}")
    return life
