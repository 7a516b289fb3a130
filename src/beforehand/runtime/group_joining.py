"""What a member does about newcomers: it finds them, and they get the application's state; also as one itself."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from beforehand.clocks.view import View
from beforehand.errors import BeforehandError, InputError
from beforehand.ordering import DeliveryProtocol
from beforehand.runtime.group_store import GroupStore
from beforehand.runtime.log_fields import LogFields
from beforehand.runtime.state_packets import StateDropped, StatePiece, StateTaken, StateWanted, Turn
from beforehand.runtime.state_transfer import StateFetcher, StateKeeper, StatePacket
from beforehand.runtime.transports.base import Identity, Transport, cancel_all

__all__ = ["Newcomers"]

log: Final = logging.getLogger("beforehand.runtime")


class Newcomers:
    """Of one member."""

    def __init__(
        self,
        me: str,
        peers: Mapping[str, str],
        *,
        protocol: DeliveryProtocol,
        transport: Transport,
        passed: Callable[[int], bool],
        failed: Callable[[BeforehandError], None],
        snapshot: Callable[[], bytes] | None,
        restored: Callable[[bytes], None] | None,
        bytes_max: int,
    ) -> None:
        """`passed`: whether all before the start of a view is handled here; `failed` hears why we cannot go on."""
        self._me: Final = me
        self._peers: Final = dict(peers)
        self._protocol: Final = protocol
        self._transport: Final = transport
        self._passed: Final = passed
        self._failed: Final = failed
        self._snapshot: Final = snapshot
        self._restored: Final = restored
        self._keeper: Final = StateKeeper(self.send)
        self._fetcher: Final = StateFetcher(self.send, bytes_max=bytes_max)
        self._met: Final[set[str]] = set()  # Whom the transport knows.
        self._incarnations: Final[dict[str, str]] = {}  # Of the other members, without a state.
        self._store: GroupStore | None = None
        self._confirming: asyncio.Task[None] | None = None

    # Where members are found.

    def identity(self, group: str, store: GroupStore | None, *, waiting: bool) -> Identity:
        """Who we are, and where all others are found: as we were told, else as their admission said."""
        others = {**self._contacts(), **self._peers}
        others.pop(self._me, None)
        self._log_fields = LogFields(group, self._me)
        if not waiting:
            self._met.update(others)
        return Identity(
            group=group,
            process=self._me,
            incarnation=secrets.token_hex(8) if store is None else store.incarnation,
            peers=others,
            remember=self._remember if store is None else store.remember,
            waiting=waiting,
        )

    def _remember(self, process: str, incarnation: str) -> bool:
        return self._incarnations.setdefault(process, incarnation) == incarnation

    def meet(self) -> None:
        """Let the transport know all who are members now."""
        contacts = self._contacts()
        for name in self._protocol.view.processes:
            if name != self._me and name not in self._met:
                self._met.add(name)
                address = self._peers.get(name) or contacts.get(name, "")
                try:
                    self._transport.meet(name, address)
                except InputError as error:
                    extra = self._log_fields("peer-unreachable", peer=name, address=address, reason=str(error))
                    log.error("%s: %s cannot be reached: %s; evict it", self._me, name, error, extra=extra)

    def send(self, to: str, data: bytes) -> None:
        if to not in self._met:
            self.meet()
        try:
            self._transport.send(to, data)
        except KeyError:
            log.debug("%s: nobody knows where %s is", self._me, to, extra=self._log_fields("peer-unknown", peer=to))

    def _contacts(self) -> Mapping[str, str]:
        contacts: Mapping[str, str] = getattr(getattr(self._protocol, "within", None), "contacts", {})
        return contacts

    # The application's state.

    def open(self, store: GroupStore | None, *, has_state: bool) -> None:
        """Go on with what was under way when this member was stopped."""
        self._store = store
        self._keeper.open(store)
        if store is not None and store.taken is not None and has_state:
            self.confirm(store.taken)

    async def close(self) -> None:
        if self._confirming is not None:
            await cancel_all([self._confirming])

    def installed(self, view: View) -> None:
        self.meet()
        with self._or_fail():
            self._keeper.let_go(view.processes)

    async def turn(self, turn: Turn) -> bytes | None:
        """All before a view is handled: keep the state for those who came in it.

        If we did, get it, and give it to the application; then `confirm` is to be called. The state is returned, to
        be kept with our place among the messages.
        """
        if self._snapshot is None or self._restored is None:
            return None
        if self._me not in turn.new:
            here, state = self._protocol.view, self._snapshot()
            self._keeper.keep(turn.view.number, [name for name in turn.new if name in here], state)
            return state
        state = await self._fetcher.fetch(turn.view.number, self._others)
        self._restored(state)
        if self._store is not None:
            self._store.set_taken(turn.view.number)
        return state

    def take(self, sender: str, packet: StatePacket) -> None:
        match packet:
            case StateWanted():
                self._keeper.wanted(sender, packet)
            case StateTaken():
                if self._passed(packet.view):  # Otherwise we would keep a state that nobody wants.
                    with self._or_fail():
                        self._keeper.taken(sender, packet)
            case StatePiece():
                self._fetcher.piece(sender, packet)
            case StateDropped():
                self._fetcher.dropped(sender)

    @contextmanager
    def _or_fail(self) -> Iterator[None]:
        try:
            yield
        except BeforehandError as error:  # The store cannot be written.
            self._failed(error)

    def _others(self) -> Sequence[str]:
        return [name for name in self._protocol.view.processes if name != self._me]

    def confirm(self, view: int) -> None:
        """We have the state and keep it: tell the others, as long as it takes, that they need not."""

        async def confirm() -> None:
            await self._fetcher.confirm(view, self._others)
            if self._store is not None:
                with self._or_fail():
                    self._store.set_taken(None)

        self._confirming = asyncio.create_task(confirm())
