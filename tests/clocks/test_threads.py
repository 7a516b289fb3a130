"""Eight threads on one clock lose no tick and produce no torn stamp."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from beforehand.clocks import (
    BoundedClock,
    Bounds,
    HybridClock,
    LamportClock,
    MatrixClock,
    OffsetClock,
    OffsetStamp,
    OrderingClock,
    VectorClock,
    VectorStamp,
    View,
)

THREADS, ROUNDS = 8, 2_000


@pytest.fixture(autouse=True)
def _eager_switching() -> Iterator[None]:
    """Threads change places as often as they can, so that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def stress(work: Callable[[int], None]) -> None:
    barrier = threading.Barrier(THREADS)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - Reported by the test below, whatever it is.
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures


def test_vector_clock_loses_no_tick() -> None:
    clock = VectorClock("p")
    stamps: list[list[VectorStamp]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        for at in range(1, ROUNDS + 1):
            # Entries x and y always move together: a stamp in which they differ is torn.
            stamps[number].append(clock.receive(VectorStamp({f"x{number}": at, f"y{number}": at})))

    stress(work)
    assert sorted(stamp["p"] for mine in stamps for stamp in mine) == list(range(1, THREADS * ROUNDS + 1))
    assert all(stamp[f"x{n}"] == stamp[f"y{n}"] for mine in stamps for stamp in mine for n in range(THREADS))
    ordered = sorted((stamp for mine in stamps for stamp in mine), key=lambda stamp: stamp["p"])
    assert all(a < b for a, b in zip(ordered[::97], ordered[97::97], strict=False))


def test_grouped_operations_are_one_step() -> None:
    clock = VectorClock("p")
    groups: list[list[tuple[VectorStamp, VectorStamp]]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            with clock.locked():
                groups[number].append((clock.tick(), clock.tick()))

    stress(work)
    assert all(second["p"] == first["p"] + 1 for mine in groups for first, second in mine)


def test_clocks_that_meet_in_any_order_do_not_deadlock() -> None:
    clocks = [VectorClock(f"p{number}") for number in range(THREADS)]

    def work(number: int) -> None:
        for at in range(200):
            clocks[number].synchronize(clocks[(number + 1 + at) % THREADS])

    stress(work)
    assert sum(clock.stamp()[clock.process] for clock in clocks) == sum(
        1 if (number + 1 + at) % THREADS == number else 2 for number in range(THREADS) for at in range(200)
    )


@pytest.mark.parametrize("make", [lambda: LamportClock("p"), lambda: HybridClock()], ids=["lamport", "hybrid"])
def test_scalar_clocks_issue_no_stamp_twice(make: Callable[[], LamportClock | HybridClock]) -> None:
    clock = make()
    stamps: list[list[object]] = [[] for _ in range(THREADS)]
    stress(lambda number: stamps[number].extend(clock.tick() for _ in range(ROUNDS)))
    assert len({stamp for mine in stamps for stamp in mine}) == THREADS * ROUNDS


def test_bounded_clock_counts_every_event() -> None:
    bounds = Bounds(epsilon=2, delta=5, processes=1, events_per_tick=THREADS * ROUNDS + 1)
    clock = BoundedClock("p", bounds)
    stress(lambda number: [clock.tick(0) for _ in range(ROUNDS)] and None)
    assert clock.stamp().known(0) == THREADS * ROUNDS + 1
    assert clock.resets == 0


def test_ordering_clock_delivers_from_many_threads_in_causal_order() -> None:
    sender, receiver = OrderingClock("sender"), OrderingClock("receiver")
    messages = [sender.send("receiver") for _ in range(800)]
    delivered: list[list[tuple[int, int]]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        # Dealt out so that every thread but one has to wait for another at each step.
        for message in messages[number::THREADS]:
            stamp = receiver.deliver(message, timeout=60)
            delivered[number].append((stamp["receiver"], message.to["receiver"]))

    stress(work)
    assert sorted(pair for mine in delivered for pair in mine) == [(at, at) for at in range(1, 801)]


def test_matrix_clock_counts_every_message() -> None:
    view = View(["me", *(f"p{number}" for number in range(THREADS))])
    clock = MatrixClock("me", view)
    stress(lambda number: [clock.send(f"p{(number + at) % THREADS}") for at in range(ROUNDS)] and None)
    last = clock.send("p0")
    assert sum(last.sent("me", f"p{number}") for number in range(THREADS)) == THREADS * ROUNDS + 1


def test_offset_clock_issues_no_stamp_twice() -> None:
    clock = OffsetClock("p", epsilon=5)
    stamps: list[list[OffsetStamp]] = [[] for _ in range(THREADS)]
    stress(lambda number: stamps[number].extend(clock.tick(7) for _ in range(ROUNDS)))
    assert len({stamp for mine in stamps for stamp in mine}) == THREADS * ROUNDS


class _Meddling:
    """A lock at whose every release another thread comes first, once."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._act: Callable[[], object] | None = act

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        act, self._act = self._act, None
        if act is not None:
            act()


def test_a_snapshot_of_a_bounded_clock_is_of_one_instant() -> None:
    clock = BoundedClock("p", Bounds(epsilon=2, delta=4, processes=2))
    clock.tick(1)
    clock._lock = _Meddling(lambda: clock.tick(2))  # type: ignore[assignment, misc]
    stamp, tick, count = clock.snapshot()
    assert (stamp.r, tick, count) == (1, 1, 1)
    assert clock.stamp().r == 2
