"""Causal ordering of calls: they wait for their causes, not for ever, and lost ones are mended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

import pytest
from plans import Recorder, recorded_before, until

from beforehand.errors import DeliveryTimeoutError, DuplicateMessageError
from beforehand.rpc import Arrival, Causality, Late, Policies, Unstamped, ordered
from beforehand.rpc.headers import MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER
from beforehand.rpc.ordered import VOIDS_MAX

QUICK = Policies(unstamped=Unstamped.REFUSE, deadline=0.05)
PATIENT = Policies(unstamped=Unstamped.REFUSE, deadline=20)


def served(server: Causality, headers: Mapping[str, str]) -> Mapping[str, str]:
    return server.reply_out(server.request_in("do", headers))


def test_a_call_waits_for_the_one_that_caused_it() -> None:
    a, b, c = (Causality(name, ordering=True, policies=PATIENT) for name in "abc")
    first = a.request_out("do", to="c")
    a_to_b = a.request_out("do", to="b")
    served(b, a_to_b.headers)
    second = b.request_out("do", to="c")
    order: list[str] = []

    def handle(name: str, headers: Mapping[str, str]) -> None:
        c.request_in("do", headers)
        order.append(name)

    early = threading.Thread(target=handle, args=("second", second.headers))
    early.start()
    until(lambda: c.figures().waiting == 1)
    handle("first", first.headers)
    early.join(10)

    assert order == ["first", "second"]
    assert c.figures().waiting == 0


def test_a_task_waits_without_holding_the_loop() -> None:
    async def run() -> list[str]:
        a, c = (Causality(name, ordering=True, policies=PATIENT) for name in "ac")
        first, second = a.request_out("do", to="c"), a.request_out("do", to="c")
        order: list[str] = []

        async def handle(name: str, headers: Mapping[str, str]) -> None:
            await c.request_in_async("do", headers)
            order.append(name)

        early = asyncio.create_task(handle("second", second.headers))
        await asyncio.sleep(0)
        await handle("first", first.headers)
        await early
        return order

    assert asyncio.run(run()) == ["first", "second"]


def test_at_the_deadline_the_call_is_refused_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    a, c = Causality("a", ordering=True), Causality("c", ordering=True, policies=QUICK)
    a.request_out("do", to="c")
    second = a.request_out("do", to="c")

    with pytest.raises(DeliveryTimeoutError):
        c.request_in("do", second.headers)

    assert [record.getMessage() for record in caplog.records] == [
        "serve do: not deliverable in time: event a:1 is not known here yet (waited 0.05 s)"
    ]
    assert (c.figures().late, c.figures().calls_refused, c.stamp().to_dict()) == (1, 1, {})


def test_at_the_deadline_the_call_goes_on_where_that_is_set() -> None:
    policies = Policies(unstamped=Unstamped.REFUSE, late=Late.GO_ON, deadline=0.05)
    a, c = Causality("a", ordering=True), Causality("c", ordering=True, policies=policies)
    a.request_out("do", to="c")
    second = a.request_out("do", to="c")

    arrival = c.request_in("do", second.headers)

    assert not arrival.stamped
    assert c.reply_out(arrival) == {}
    assert c.stamp().to_dict() == {"c": 2}  # Nothing of the message was taken over.


def test_a_lost_request_is_voided_by_the_next_call() -> None:
    recorder = Recorder()
    a = Causality("a", ordering=True, policies=QUICK, reporter=recorder.reporter("a", stamps=False))
    c = Causality("c", ordering=True, policies=QUICK, reporter=recorder.reporter("c", stamps=False))
    for _ in range(3):
        a.failed(a.request_out("do", to="c"), "lost")

    call = a.request_out("do", to="c")
    a.reply_in(call, served(c, call.headers))
    after = a.request_out("do", to="c")

    assert c.figures().voided == 3
    assert VOID_HEADER not in after.headers
    recorded_before(recorder.events())


def test_a_lost_reply_is_voided_by_the_next_one() -> None:
    a, c = (Causality(name, ordering=True, policies=QUICK) for name in "ac")
    lost = a.request_out("do", to="c")
    served(c, lost.headers)
    a.failed(lost, "timeout")

    call = a.request_out("do", to="c")
    reply = served(c, call.headers)
    a.reply_in(call, reply)

    assert VOID_HEADER in reply
    assert (a.figures().voided, c.figures().voided, a.figures().late) == (1, 0, 0)


def test_replies_that_were_lost_together_are_voided_together() -> None:
    a, c = (Causality(name, ordering=True, policies=QUICK) for name in "ac")
    lost = [a.request_out("do", to="c") for _ in range(2)]
    for call in lost:
        served(c, call.headers)
    for call in lost:
        a.failed(call, "timeout")

    call = a.request_out("do", to="c")
    a.reply_in(call, served(c, call.headers))

    assert (a.figures().voided, a.figures().late) == (2, 0)


def test_replies_are_remembered_until_their_caller_shows_that_it_got_them() -> None:
    a, b, c = (Causality(name, ordering=True, policies=QUICK) for name in "abc")
    lane = c._ordered
    assert lane is not None
    for _ in range(5):
        call = a.request_out("do", to="c")
        a.reply_in(call, served(c, call.headers))
    served(c, b.request_out("do", to="c").headers)  # Its reply does not arrive.
    lost = a.request_out("do", to="c")
    served(c, lost.headers)
    a.failed(lost, "timeout")
    remembered = len(lane._replies)

    call = a.request_out("do", to="c")
    a.reply_in(call, served(c, call.headers))
    after = a.request_out("do", to="c")
    c.request_in("do", after.headers)

    assert remembered == 2  # The one to b, and the lost one to a.
    assert (a.figures().voided, a.figures().received) == (1, 6)
    assert {sender for sender, _ in lane._replies} == {"b"}


def test_messages_that_nobody_answers_and_callers_that_never_come_back_fill_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ordered, "_RUNNING_MAX", 3)
    monkeypatch.setattr(ordered, "_REPLIES_MAX", 3)
    c = Causality("c", ordering=True, policies=QUICK)
    lane = c._ordered
    assert lane is not None
    for number in range(8):
        a = Causality(f"a{number}", ordering=True)
        c.request_in("tell", a.request_out("tell", to="c").headers)  # One way: there is no reply.
        served(c, a.request_out("ask", to="c").headers)
    assert len(lane._running) <= 3
    assert len(lane._replies) == 3
    assert lane._replied.keys() == {sender for sender, _ in lane._replies}


def test_a_handler_whose_caller_gave_up_sends_no_reply_in_order() -> None:
    a, c = (Causality(name, ordering=True, policies=QUICK) for name in "ac")
    lost = a.request_out("do", to="c")
    running = c.request_in("do", lost.headers)
    a.failed(lost, "timeout")
    call = a.request_out("do", to="c")
    arrival = c.request_in("do", call.headers)

    assert c.reply_out(running) == {}
    a.reply_in(call, c.reply_out(arrival))

    assert a.figures().late == 0


def test_a_reply_that_comes_before_its_causes_is_late_and_mended_by_the_next_call() -> None:
    a, c = (Causality(name, ordering=True, policies=QUICK) for name in "ac")
    c.request_out("tell", to="a")  # On its way, for long.
    call = a.request_out("do", to="c")
    reply = served(c, call.headers)
    with pytest.raises(DeliveryTimeoutError):
        a.reply_in(call, reply)

    again = a.request_out("do", to="c")

    assert VOID_HEADER in again.headers
    assert (a.figures().late, a.figures().received) == (1, 0)


def test_the_limit_counts_all_stamps_of_a_message_together() -> None:
    a, c = Causality("a", ordering=True), Causality("c", ordering=True)
    a.failed(a.request_out("do", to="c"), "lost")
    call = a.request_out("do", to="c")
    limit = len(call.headers[STAMP_HEADER]) + len(call.headers[VOID_HEADER])

    c.request_in("do", call.headers, limit=limit - 1)
    refused = c.figures().stamps_refused
    arrival = c.request_in("do", call.headers, limit=limit)

    assert refused == 1
    assert arrival.stamped


def test_a_voided_call_that_arrives_late_is_refused() -> None:
    a, c = (Causality(name, ordering=True, policies=QUICK) for name in "ac")
    late = a.request_out("do", to="c")
    a.failed(late, "timeout")
    call = a.request_out("do", to="c")
    a.reply_in(call, served(c, call.headers))

    with pytest.raises(DuplicateMessageError):
        c.request_in("do", late.headers)


def test_a_server_that_was_away_for_long_is_taken_back() -> None:
    policies = Policies(unstamped=Unstamped.ACCEPT, deadline=0.05)
    recorder = Recorder()
    a = Causality("a", ordering=True, policies=policies, reporter=recorder.reporter("a", stamps=False))
    c = Causality("c", ordering=True, policies=policies, reporter=recorder.reporter("c", stamps=False))
    for _ in range(VOIDS_MAX + 10):
        a.failed(a.request_out("do", to="c"), "away")

    mending = a.request_out("do", to="c")
    a.reply_in(mending, served(c, mending.headers))
    call = a.request_out("do", to="c")
    a.reply_in(call, served(c, call.headers))

    assert STAMP_HEADER not in mending.headers
    assert MESSAGE_HEADER in mending.headers
    assert a.figures().sent_unordered == 11
    assert (c.figures().voided, c.figures().received, c.figures().late) == (VOIDS_MAX, 1, 0)
    assert VOID_HEADER not in call.headers
    recorder.events()


def test_a_warning_comes_when_as_many_wait_as_the_pool_holds(caplog: pytest.LogCaptureFixture) -> None:
    policies = Policies(unstamped=Unstamped.REFUSE, deadline=0.3, pool_size=2)
    a, c = Causality("a", ordering=True), Causality("c", ordering=True, policies=policies)
    a.request_out("do", to="c")
    later = [a.request_out("do", to="c") for _ in range(3)]

    def run(headers: Mapping[str, str]) -> None:
        with pytest.raises(DeliveryTimeoutError):
            c.request_in("do", headers)

    threads = [threading.Thread(target=run, args=(call.headers,)) for call in later]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum("as many as the pool holds" in record.getMessage() for record in caplog.records) == 1


def test_a_forged_stamp_does_not_stop_the_group() -> None:
    a, c = Causality("a", ordering=True), Causality("c", ordering=True)
    honest = a.request_out("do", to="c")
    elsewhere = a.request_out("do", to="d")

    arrival = c.request_in("do", elsewhere.headers)  # Not addressed to c.
    served(c, honest.headers)

    assert isinstance(arrival, Arrival)
    assert not arrival.stamped
    assert (c.figures().stamps_refused, c.figures().received) == (1, 1)


def test_reports_follow_the_clock_whatever_the_threads() -> None:
    recorder = Recorder()
    server = Causality("server", ordering=True, reporter=recorder.reporter("server", stamps=False))
    clients = [
        Causality(f"client-{number}", ordering=True, reporter=recorder.reporter(f"client-{number}", stamps=False))
        for number in range(6)
    ]

    def run(client: Causality) -> None:
        for _ in range(15):
            call = client.request_out("do", to="server")
            client.reply_in(call, served(server, call.headers))

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    events = recorder.events()
    assert len(events) == 6 * 15 * 4
    assert all(event.clock is not None and event.clock[event.process] == event.index for event in events)
    recorded_before(events)
