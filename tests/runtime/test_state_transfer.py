"""How a state gets to a newcomer, without a network: who is given it, piece by piece, and from one member only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beforehand.errors import LocalProtocolError
from beforehand.runtime import state_transfer
from beforehand.runtime.codec import decode_packet
from beforehand.runtime.group_store import GroupStore
from beforehand.runtime.state_packets import (
    PIECE_BYTES_MAX,
    StateDropped,
    StatePiece,
    StateTaken,
    StateWanted,
)
from beforehand.runtime.state_transfer import StateFetcher, StateKeeper

STATE = bytes(range(256)) * 2560


class Desk:
    """Keepers by name, and one newcomer, d; what each sends arrives at once, if `between` lets it."""

    def __init__(self, *names: str, bytes_max: int = 10**9) -> None:
        self.keepers = {name: StateKeeper(self._answer(name)) for name in names}
        self.fetcher = StateFetcher(self._ask, bytes_max=bytes_max)
        self.between: Callable[[str, Any], Any] = lambda _, packet: packet
        self.asked: list[tuple[str, int]] = []

    def _answer(self, name: str) -> Callable[[str, bytes], None]:
        def send(to: str, data: bytes) -> None:
            packet = self.between(name, decode_packet(data))
            if to == "d" and isinstance(packet, StatePiece):
                self.fetcher.piece(name, packet)
            elif to == "d" and isinstance(packet, StateDropped):
                self.fetcher.dropped(name)

        return send

    def _ask(self, to: str, data: bytes) -> None:
        packet = decode_packet(data)
        if isinstance(packet, StateWanted):
            self.asked.append((to, packet.offset))
            asyncio.get_running_loop().call_soon(self.keepers[to].wanted, "d", packet)
        elif isinstance(packet, StateTaken):
            asyncio.get_running_loop().call_soon(self.keepers[to].taken, "d", packet)

    def fetch(self, view: int = 3) -> bytes:
        async def run() -> bytes:
            async with asyncio.timeout(20):
                return await self.fetcher.fetch(view, lambda: list(self.keepers))

        return asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_transfer, "ANSWER_S", 0.05)
    monkeypatch.setattr(state_transfer, "AGAIN_S", 0.01)
    monkeypatch.setattr(state_transfer, "CONFIRM_S", 0.01)


def test_a_state_comes_in_pieces_from_one_member() -> None:
    desk = Desk("a", "b")
    for keeper in desk.keepers.values():
        keeper.keep(3, ["d"], STATE)
    assert desk.fetch() == STATE
    assert desk.asked == [("a", 0), ("a", PIECE_BYTES_MAX), ("a", 2 * PIECE_BYTES_MAX)]


def test_an_empty_state_is_one_too() -> None:
    desk = Desk("a")
    desk.keepers["a"].keep(3, ["d"], b"")
    assert desk.fetch() == b""


def test_who_has_none_or_keeps_it_for_others_is_passed_over() -> None:
    desk = Desk("a", "b", "c")
    desk.keepers["a"].keep(2, ["d"], b"of another view")
    desk.keepers["b"].keep(3, ["e"], b"for another")
    desk.keepers["c"].keep(3, ["d"], STATE)
    assert desk.fetch() == STATE


def test_pieces_of_two_members_or_of_two_states_are_never_put_together() -> None:
    desk = Desk("a", "b")
    desk.keepers["a"].keep(3, ["d"], STATE)
    desk.keepers["b"].keep(3, ["d"], bytes(reversed(STATE)))

    def change(name: str, packet: Any) -> Any:
        if name == "a" and isinstance(packet, StatePiece) and packet.offset:
            desk.keepers["a"].keep(3, ["d"], b"\x07" * len(STATE))  # It was restarted, and took its state anew.
        return packet

    desk.between = change
    assert desk.fetch() == bytes(reversed(STATE))


def test_what_was_changed_on_the_way_is_not_taken() -> None:
    desk = Desk("a", "b")
    for keeper in desk.keepers.values():
        keeper.keep(3, ["d"], b"true")

    def change(name: str, packet: Any) -> Any:
        if name == "a" and isinstance(packet, StatePiece):
            return StatePiece(view=3, offset=0, total=4, digest=packet.digest, data=b"fals")
        return packet

    desk.between = change
    assert desk.fetch() == b"true"


def test_a_member_that_stops_in_the_middle_is_left_for_another() -> None:
    desk = Desk("a", "b")
    for keeper in desk.keepers.values():
        keeper.keep(3, ["d"], STATE)
    desk.between = lambda name, packet: (
        None if name == "a" and isinstance(packet, StatePiece) and packet.offset else packet
    )
    assert desk.fetch() == STATE
    assert [offset for name, offset in desk.asked if name == "b"] == [0, PIECE_BYTES_MAX, 2 * PIECE_BYTES_MAX]


def test_a_state_above_the_limit_is_refused() -> None:
    desk = Desk("a", bytes_max=100)
    desk.keepers["a"].keep(3, ["d"], STATE)
    with pytest.raises(LocalProtocolError, match="the limit is 100"):
        desk.fetch()


def test_a_state_is_kept_over_a_restart_until_all_who_came_have_it(tmp_path: Path) -> None:
    def store() -> GroupStore:
        return GroupStore(tmp_path / "a.db", group="g", process="a", order="fifo")

    desk = Desk("a")
    first = store()
    desk.keepers["a"].open(first)
    desk.keepers["a"].keep(3, ["d", "e"], STATE)
    first.close()

    again, second = Desk("a"), store()
    again.keepers["a"].open(second)
    assert again.fetch() == STATE

    async def confirm() -> None:
        async with asyncio.timeout(20):
            await again.fetcher.confirm(3, lambda: ["a"])

    asyncio.run(confirm())
    assert len(second.states()) == 1, "e has not got it"
    again.keepers["a"].let_go(["a", "d"])
    assert second.states() == []
    second.close()
