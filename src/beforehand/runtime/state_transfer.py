"""How a newcomer gets the application's state: as it was, exactly, when the newcomer's first view began.

Every member takes its state when it comes to the start of that view among the messages that it handles, and keeps it
until the newcomer has told it that it has one, or is gone. The newcomer asks one member after the other, piece by
piece, and takes all pieces from one: so it does not matter who stops meanwhile, nor who is slow. All that is kept is
in the member's state, if it has one: a member that is killed still has it afterwards, and a newcomer that is killed
asks again.

Guarantees, if the state depends on nothing but the messages that were handled:
  1. The newcomer has the state of all messages before its first view, and of none in it.
  2. It gets one if a member stays that was there before it.
  3. Bounded: pieces of PIECE_BYTES_MAX, one asked for at a time; a member keeps one state for each view that somebody
     joined in and has not taken it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final

import msgspec

from beforehand.errors import LocalProtocolError
from beforehand.runtime.codec import encode
from beforehand.runtime.group_store import GroupStore
from beforehand.runtime.state_packets import (
    DIGEST_BYTES,
    PIECE_BYTES_MAX,
    StateDropped,
    StatePiece,
    StateTaken,
    StateWanted,
)

__all__ = ["StateFetcher", "StateKeeper", "StatePacket"]

ANSWER_S: Final = 1.0
TRIES: Final = 3  # So often a member that has given one is asked for another piece, before others are asked for all.
AGAIN_S: Final = 0.2
CONFIRM_S: Final = 0.5

StatePacket = StateWanted | StatePiece | StateTaken | StateDropped
Send = Callable[[str, bytes], None]


class _Held(msgspec.Struct, array_like=True):
    names: list[str]
    state: bytes


class StateKeeper:
    """The states that one member keeps for newcomers."""

    def __init__(self, send: Send) -> None:
        self._send: Final = send
        self._held: Final[dict[int, _Held]] = {}  # By view: for whom, and the state at its start.
        self._digests: Final[dict[int, bytes]] = {}
        self._store: GroupStore | None = None

    def open(self, store: GroupStore | None) -> None:
        """Take up what was kept before."""
        self._store = store
        if store is not None:
            for view, data in store.states():
                self._held[view] = held = msgspec.msgpack.decode(data, type=_Held)
                self._digests[view] = _digest(held.state)

    def keep(self, view: int, names: Iterable[str], state: bytes) -> None:
        held = _Held(sorted(names), state)
        if held.names:
            self._held[view], self._digests[view] = held, _digest(state)
            self._write(view)

    def let_go(self, members: Sequence[str]) -> None:
        """Whoever is no longer a member wants nothing any more."""
        for view, held in list(self._held.items()):
            for name in [name for name in held.names if name not in members]:
                self._drop(view, name)

    def wanted(self, sender: str, packet: StateWanted) -> None:
        held = self._held.get(packet.view)
        if held is None or sender not in held.names or packet.offset > len(held.state):
            return  # We are not there yet, or it is not for it: it asks somebody else, and perhaps us again.
        piece = StatePiece(
            view=packet.view,
            offset=packet.offset,
            total=len(held.state),
            digest=self._digests[packet.view],
            data=held.state[packet.offset : packet.offset + PIECE_BYTES_MAX],
        )
        self._send(sender, encode(piece))

    def taken(self, sender: str, packet: StateTaken) -> None:
        self._drop(packet.view, sender)
        self._send(sender, encode(StateDropped(view=packet.view)))

    def _drop(self, view: int, name: str) -> None:
        held = self._held.get(view)
        if held is None or name not in held.names:
            return
        held.names.remove(name)
        if not held.names:
            del self._held[view], self._digests[view]
        self._write(view)

    def _write(self, view: int) -> None:
        if self._store is not None:
            held = self._held.get(view)
            self._store.set_state(view, None if held is None else msgspec.msgpack.encode(held))


class StateFetcher:
    """The newcomer's side."""

    def __init__(self, send: Send, *, bytes_max: int) -> None:
        self._send: Final = send
        self._bytes_max: Final = bytes_max
        self._answer: asyncio.Future[StatePiece] | None = None
        self._asked: tuple[str, int, int] | None = None  # Whom we asked, of which view, from where on.
        self._keeping: set[str] = set()  # Who may still keep a state for us.

    async def fetch(self, view: int, members: Callable[[], Sequence[str]]) -> bytes:
        """The state at the start of the view, of one of the members that there are then."""
        while True:
            for member in members():
                state = await self._fetch_from(member, view)
                if state is not None:
                    return state
            await asyncio.sleep(AGAIN_S)

    async def _fetch_from(self, member: str, view: int) -> bytes | None:
        state, digest = bytearray(), b""
        while True:
            piece = await self._ask(member, view, len(state))
            if piece is None or (digest and piece.digest != digest):
                return None  # It took its state anew: the pieces may not fit together.
            if piece.total > self._bytes_max:
                raise LocalProtocolError(
                    f"the state of the group has {piece.total} bytes: the limit is {self._bytes_max}"
                )
            digest = piece.digest
            state += piece.data
            if len(state) >= piece.total:
                return bytes(state) if _digest(bytes(state)) == digest else None
            if not piece.data:
                return None

    async def _ask(self, member: str, view: int, offset: int) -> StatePiece | None:
        for _ in range(TRIES if offset else 1):
            self._answer = asyncio.get_running_loop().create_future()
            self._asked = (member, view, offset)
            self._send(member, encode(StateWanted(view=view, offset=offset)))
            with suppress(TimeoutError):
                return await asyncio.wait_for(self._answer, ANSWER_S)
        return None

    def piece(self, sender: str, packet: StatePiece) -> None:
        asked = (sender, packet.view, packet.offset)
        if self._answer is not None and not self._answer.done() and asked == self._asked:
            self._answer.set_result(packet)

    async def confirm(self, view: int, members: Callable[[], Sequence[str]]) -> None:
        """Tell all that we have it, until they have heard it."""
        self._keeping = set(members())
        while self._keeping:
            for member in sorted(self._keeping):
                self._send(member, encode(StateTaken(view=view)))
            await asyncio.sleep(CONFIRM_S)
            self._keeping &= set(members())

    def dropped(self, sender: str) -> None:
        self._keeping.discard(sender)


def _digest(state: bytes) -> bytes:
    return blake2b(state, digest_size=DIGEST_BYTES).digest()
