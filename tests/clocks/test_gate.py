"""The gate, the sequence set, and the bounds and accounts of everything that waits."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.clocks import ObserverClock, OrderingClock, OrderingStamp, SequenceSet, VectorClock, VectorStamp
from beforehand.clocks.gate import Gate, Waiting
from beforehand.clocks.peers import PEERS_MAX, PeerPolicy, UnrecordedPeers
from beforehand.errors import BufferFullError, DuplicateMessageError, ImpossibleStampError, RemoteProtocolError


class Room:
    """A gate whose messages are what they bring: knowledge grows by each that is taken, in the order of waking."""

    def __init__(self, waiting_max: int = 100) -> None:
        self.known: dict[str, int] = {}
        self.delivered: list[str] = []
        self.free: list[Waiting[tuple[str, str, int]]] = []
        self.looks = 0
        self.gate: Gate[tuple[str, str, int]] = Gate(known=self._known, waiting_max=waiting_max)

    def _known(self, process: str) -> int:
        self.looks += 1
        return self.known.get(process, 0)

    def enter(self, name: str, brings: tuple[str, int], **needs: int) -> Waiting[tuple[str, str, int]]:
        waiting = Waiting((name, *brings), VectorStamp(needs), lambda: self.free.append(waiting))
        self.gate.enter(waiting)
        if waiting.missing is None:
            self.free.append(waiting)
        while self.free:
            name, process, count = self.free.pop(0).message
            self.delivered.append(name)
            self.known[process] = max(count, self.known.get(process, 0))
            self.gate.release([process])
        return waiting


def test_a_message_that_misses_several_things_is_parked_on_each_in_turn() -> None:
    room = Room()
    last = room.enter("last", ("z", 1), a=1, b=1, c=1)
    assert last.missing == ("a", 1)
    room.enter("from a", ("a", 1))
    assert last.missing == ("b", 1)
    room.enter("from c", ("c", 1))
    assert last.missing == ("b", 1)
    room.enter("from b", ("b", 1))
    assert last.missing is None
    assert room.delivered == ["from a", "from c", "from b", "last"]
    assert len(room.gate) == 0


def test_a_chain_is_drained_in_order_by_its_first_message() -> None:
    room = Room()
    for at in (5, 3, 4, 2):
        room.enter(f"m{at}", ("a", at), a=at - 1)
    assert len(room.gate) == 4
    room.enter("m1", ("a", 1))
    assert room.delivered == ["m1", "m2", "m3", "m4", "m5"]
    assert len(room.gate) == 0


def test_one_that_gives_up_leaves_the_others_in_order_and_its_place_free() -> None:
    room = Room(waiting_max=7)
    waiting = {at: room.enter(f"m{at}", ("z", at), a=at) for at in (1, 5, 2, 7, 6, 3, 4)}
    with pytest.raises(BufferFullError):
        room.enter("m8", ("z", 8), a=8)
    room.gate.leave(waiting[1])
    assert len(room.gate) == 6
    room.enter("m8", ("z", 8), a=8)
    room.enter("all of a", ("a", 9))
    assert room.delivered == ["all of a", "m2", "m3", "m4", "m5", "m6", "m7", "m8"]
    assert len(room.gate) == 0


def test_places_are_free_again_when_messages_were_let_through() -> None:
    room = Room(waiting_max=2)
    for turn in range(1, 20):
        room.enter(f"x{turn}", ("z", turn), a=turn)
        room.enter(f"y{turn}", ("z", turn), a=turn)
        room.enter(f"a{turn}", ("a", turn))
    assert len(room.gate) == 0


def test_a_message_is_looked_at_only_when_what_it_misses_may_have_come() -> None:
    room = Room(waiting_max=1000)
    for at in range(1000, 1, -1):
        room.enter(f"m{at}", ("a", at), a=at - 1)
    room.looks = 0
    room.enter("m1", ("a", 1))
    assert len(room.delivered) == 1000
    assert room.looks < 5 * 1000, "a few looks each, not a scan of all that wait"


@given(st.lists(st.integers(1, 30), max_size=60))
def test_a_sequence_set_is_a_set(numbers: list[int]) -> None:
    ours, plain = SequenceSet(), set[int]()
    for number in numbers:
        assert ours.add(number) == (number not in plain)
        plain.add(number)
        mark = next(n for n in range(32) if n + 1 not in plain)
        assert ours.mark == mark
        assert ours.gaps == len([n for n in plain if n > mark]), "only what lies above a gap is held one by one"
        assert all((n in ours) == (n in plain) for n in range(1, 32))


def test_a_waiting_message_whose_delivery_fails_says_so_to_its_caller_and_may_be_tried_again() -> None:
    # b's clock is full when the second message would be delivered; until then only what it waits for is known.
    a, b = OrderingClock("a"), OrderingClock("b", entries_max=2)
    first = a.send("b")
    a._clock.merge(VectorStamp({"x": 1, "y": 1}))
    second = a.send("b")

    async def run() -> None:
        task = asyncio.create_task(b.deliver_async(second))
        await asyncio.sleep(0)
        await b.deliver_async(first)
        with pytest.raises(BufferFullError):
            await task

    asyncio.run(run())
    with pytest.raises(BufferFullError):
        b.deliver(second)  # Not a DuplicateMessageError: it was never delivered.
    assert b._door._at_gate == set()


def test_a_wait_that_is_cancelled_after_the_message_became_free_did_not_deliver_it() -> None:
    a, b = OrderingClock("a"), OrderingClock("b")
    first, second, third = (a.send("b") for _ in range(3))

    async def run() -> None:
        task = asyncio.create_task(b.deliver_async(second))
        last = asyncio.create_task(b.deliver_async(third))
        await asyncio.sleep(0)
        b.deliver(first)  # Sets the second free; its task has not run yet.
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert b.stamp()["b"] == 1
        assert [message for message, _ in b.waiting()] == [third], "what depends on it goes on waiting"
        await b.deliver_async(second)
        await last

    asyncio.run(run())
    assert b.stamp().to_dict() == {"a": 3, "b": 3}


def test_an_interrupted_thread_did_not_deliver(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = OrderingClock("a"), OrderingClock("b")
    first, second = a.send("b"), a.send("b")

    def interrupted(self: object, timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("threading.Event.wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            b.deliver(second)
    assert b.waiting() == []
    b.deliver(first)
    b.deliver(second)


def test_a_loop_that_is_gone_does_not_harm_whoever_sets_its_message_free() -> None:
    a, b = OrderingClock("a"), OrderingClock("b")
    first, second = a.send("b"), a.send("b")
    loop = asyncio.new_event_loop()
    task = loop.create_task(b.deliver_async(second))
    loop.run_until_complete(asyncio.sleep(0))
    assert b.waiting()
    stopped = loop.call_soon_threadsafe
    loop.call_soon_threadsafe = _closed  # type: ignore[method-assign]
    assert b.deliver(first)["b"] == 1
    loop.call_soon_threadsafe = stopped  # type: ignore[method-assign]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    assert b.deliver(second)["b"] == 2


def _closed(*_: object, **__: object) -> None:
    raise RuntimeError("Event loop is closed")


def test_what_waited_is_forgotten_once_it_is_delivered() -> None:
    a, b = OrderingClock("a"), OrderingClock("b")
    first, second = a.send("b"), a.send("b")

    async def run() -> None:
        task = asyncio.create_task(b.deliver_async(second))
        await asyncio.sleep(0)
        assert b._door._at_gate == {("a", 2)}
        b.deliver(first)
        await task

    asyncio.run(run())
    assert b._door._at_gate == set()
    with pytest.raises(DuplicateMessageError):
        b.deliver(second)


def test_senders_destinations_and_tables_are_bounded() -> None:
    one = OrderingClock("one", entries_max=1)
    one.deliver(OrderingStamp("a", {"one": 1}, VectorStamp({"a": 1}), {}))
    with pytest.raises(BufferFullError, match="senders"):
        one.deliver(OrderingStamp("b", {"one": 1}, VectorStamp({"b": 1}), {}))
    with pytest.raises(BufferFullError, match="rows"):
        one.deliver(
            OrderingStamp("a", {"one": 2}, VectorStamp({"a": 2}), {p: VectorStamp({"a": 1}) for p in ("p", "q")})
        )
    one.send("p")
    with pytest.raises(BufferFullError, match="destinations"):
        one.send("q")
    with pytest.raises(BufferFullError, match="destinations"):
        one.send("p", "q")
    # A row that a message brought takes a place too.
    other = OrderingClock("other", entries_max=1)
    other.deliver(OrderingStamp("a", {"other": 1}, VectorStamp({"a": 2}), {"p": VectorStamp({"a": 1})}))
    with pytest.raises(BufferFullError, match="destinations"):
        other.send("q")


def test_an_observer_is_bounded_and_has_no_events_to_be_claimed() -> None:
    observer = ObserverClock("watcher", entries_max=2)
    with pytest.raises(BufferFullError, match="observer"):
        observer.deliver(OrderingStamp("a", {"watcher": 1}, VectorStamp({"a": 1, "b": 1, "c": 1}), {}))
    with pytest.raises(ImpossibleStampError):
        observer.deliver(OrderingStamp("a", {"watcher": 1}, VectorStamp({"a": 1, "watcher": 1}), {}))
    assert observer.stamp() == VectorStamp()


def test_a_table_that_its_own_time_denies_is_refused() -> None:
    # Believed, it would hold up every later message to r: nothing can make "ghost" arrive.
    clock = OrderingClock("p")
    forged = OrderingStamp("q", {"p": 1}, VectorStamp({"q": 1}), {"r": VectorStamp({"ghost": 10**18})})
    with pytest.raises(RemoteProtocolError, match="its own time denies"):
        clock.deliver(forged)
    assert clock.send("r").table == {}


def test_peers_without_stamps_are_bounded() -> None:
    peers = UnrecordedPeers(PeerPolicy.MARK)
    for number in range(PEERS_MAX):
        peers.admit(f"peer {number}")
    peers.admit("peer 0")
    with pytest.raises(BufferFullError):
        peers.admit("one more")
    assert VectorClock("p", peer_policy=PeerPolicy.MARK).unrecorded == {}


def test_many_that_give_up_at_once_leave_nothing_behind() -> None:
    room = Room(waiting_max=1000)
    waiting = [room.enter(f"m{at}", ("z", at), a=at) for at in range(1, 1001)]
    for one in waiting[1:]:
        room.gate.leave(one)
        room.gate.leave(one)  # Twice is once.
    assert len(room.gate) == 1
    assert [w.message[0] for w in room.gate.waiting()] == ["m1"]
    assert sum(map(len, room.gate._parked.values())) < 200, "dead entries are swept"
    room.enter("all of a", ("a", 2000))
    assert room.delivered == ["all of a", "m1"]
    assert (len(room.gate), room.gate._parked) == (0, {})


def test_a_message_that_waits_for_itself_is_refused() -> None:
    clock = OrderingClock("b")
    with pytest.raises(RemoteProtocolError, match="its own time denies"):
        clock.deliver(OrderingStamp("a", {"b": 1}, VectorStamp({"a": 1}), {"b": VectorStamp({"a": 1})}))


def test_a_message_that_does_not_wait_for_the_one_before_it_is_refused() -> None:
    # Else one peer could fill the set of numbers received with gaps.
    clock = OrderingClock("b")
    with pytest.raises(RemoteProtocolError, match="does not wait for message 1"):
        clock.deliver(OrderingStamp("a", {"b": 2}, VectorStamp({"a": 2}), {}))
    clock.deliver(OrderingStamp("a", {"b": 1}, VectorStamp({"a": 1}), {}))
    assert clock.stamp().to_dict() == {"a": 1, "b": 1}


def test_a_child_that_could_not_be_born_leaves_its_name_free() -> None:
    parent = VectorClock("p", start=VectorStamp({"p": 1, "q": 1}), entries_max=1)
    for _ in range(2):
        with pytest.raises(BufferFullError):
            parent.spawn("c")
