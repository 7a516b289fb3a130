"""The core: four events of a call, policies, and what peers may do to it."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import Recorder, recorded_before

from beforehand.clocks import LamportClock, VectorStamp, View
from beforehand.errors import InputError, NonParticipantError
from beforehand.reporting import Reporter
from beforehand.rpc import Causality, Policies, Unstamped
from beforehand.rpc.headers import MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER


def test_a_call_is_two_messages_and_four_events() -> None:  # Berry 1995, 3.3 (ii).
    client, server = Causality("client"), Causality("server")

    call = client.request_out("order")
    arrival = server.request_in("order", call.headers)
    client.event("something else meanwhile")
    reply = server.reply_out(arrival)
    client.reply_in(call, reply)

    assert call.headers[MESSAGE_HEADER] == "client:1"
    assert VectorStamp.from_text(call.headers[STAMP_HEADER]).to_dict() == {"client": 1}
    assert VectorStamp.from_text(reply[STAMP_HEADER]).to_dict() == {"client": 1, "server": 2}
    assert client.stamp().to_dict() == {"client": 3, "server": 2}


def test_a_message_that_comes_twice_is_received_once() -> None:
    recorder = Recorder()
    client = Causality("client", reporter=recorder.reporter("client"))
    server = Causality("server", reporter=recorder.reporter("server"))
    call = client.request_out("order")

    server.request_in("order", call.headers)
    server.request_in("order", call.headers)

    events = recorder.events()
    assert [event.receives for event in events if event.process == "server"] == [("client:1",), ()]
    assert server.figures().received_again == 1
    recorded_before(events)


def test_names_of_processes_may_hold_any_text() -> None:
    client, server = Causality("Büro:7 %41,\n☃"), Causality("server")

    arrival = server.request_in("order", client.request_out("order").headers)

    assert (arrival.sender, arrival.message) == ("Büro:7 %41,\n☃", "Büro:7 %41,\n☃:1")
    assert server.stamp()["Büro:7 %41,\n☃"] == 1


def test_stamps_in_a_view_are_short_and_fall_back_to_names() -> None:
    view = View([f"process-{number}" for number in range(100)])
    client, server = Causality("process-1", view=view), Causality("process-2", view=view)
    stranger = Causality("stranger", view=view)

    short = client.request_out("order").headers
    server.request_in("order", short)
    server.request_in("order", stranger.request_out("order").headers)

    assert VectorStamp.from_text(short[STAMP_HEADER], view=view).to_dict() == {"process-1": 1}
    assert server.stamp().to_dict() == {"process-1": 1, "process-2": 2, "stranger": 1}


def test_a_stamp_in_a_view_that_we_do_not_have_is_refused() -> None:
    client = Causality("a", view=View(["a", "b"]))
    without, other = Causality("b"), Causality("b", view=View(["b", "a"]))

    without.request_in("order", client.request_out("order").headers)
    other.request_in("order", client.request_out("order").headers)

    assert without.figures().stamps_refused == other.figures().stamps_refused == 1
    assert without.stamp().to_dict() == other.stamp().to_dict() == {"b": 1}


FORGED = VectorStamp({"peer": 1, "server": 99}).to_text()
LANE = VectorStamp({"peer": 1, "server#1": 99}).to_text()
STRANGE = VectorStamp({"peer": 1, "mallory": 5}).to_text()
OTHER_COUNT = VectorStamp({"peer": 2}).to_text()
GOOD = VectorStamp({"peer": 1}).to_text()


@pytest.mark.parametrize(
    "headers",
    [
        {STAMP_HEADER: GOOD},  # No message.
        {MESSAGE_HEADER: "peer", STAMP_HEADER: GOOD},  # No count.
        {MESSAGE_HEADER: ":1", STAMP_HEADER: GOOD},
        {MESSAGE_HEADER: "peer:01", STAMP_HEADER: GOOD},
        {MESSAGE_HEADER: "peer:²", STAMP_HEADER: GOOD},
        {MESSAGE_HEADER: "%ff:1", STAMP_HEADER: GOOD},
        {MESSAGE_HEADER: "x" * 5000 + ":1", STAMP_HEADER: GOOD},
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: OTHER_COUNT},
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: FORGED},  # Events that the server has not made.
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: LANE},  # The same of one of its lanes.
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: STRANGE},  # Names a process that is not known.
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: f"{GOOD}, {GOOD}"},  # The header came twice.
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: LamportClock("peer").tick().to_text()},
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: "A" * 7000},  # Above the limit.
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: GOOD, VOID_HEADER: GOOD},
        {MESSAGE_HEADER: "peer:1", STAMP_HEADER: GOOD, VOID_HEADER: "," * 100},
    ],
)
def test_a_bad_stamp_is_refused_and_counted_and_nothing_of_it_is_taken_over(headers: dict[str, str]) -> None:
    server = Causality("server", lanes=1, known=lambda process: process != "mallory")

    arrival = server.request_in("order", headers)

    assert not arrival.stamped
    assert server.stamp().to_dict() == {"server": 1}
    assert server.figures().stamps_refused == server.figures().received_unstamped == 1
    assert server.reply_out(arrival) == {}


@given(
    st.dictionaries(
        st.sampled_from([MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER]),
        st.text(max_size=60) | st.sampled_from(["peer:1", GOOD, GOOD[:-1], FORGED]),
    ),
    st.booleans(),
)
def test_no_headers_make_it_raise_or_lose_count(headers: dict[str, str], ordering: bool) -> None:
    server = Causality("server", ordering=ordering, policies=Policies(unstamped=Unstamped.ACCEPT))

    arrival = server.request_in("order", headers)
    server.reply_out(arrival)

    assert server.stamp()["server"] == 2
    assert len(server.stamp()) == (2 if arrival.stamped else 1)


def test_a_clock_that_knows_enough_processes_takes_no_more_names_from_peers() -> None:
    server = Causality("server", entries_max=2)
    recorder = Recorder()
    for name in ("a", "b", "c"):
        server.request_in("order", Causality(name, reporter=recorder.reporter(name)).request_out("order").headers)

    assert server.stamp().to_dict() == {"a": 1, "b": 1, "server": 3}
    assert server.figures().stamps_refused == 1
    recorder.events()


def test_warnings_name_each_peer_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Causality("server")
    for peer in ("x", "y", "x"):
        server.request_in("order", {}, peer=peer)

    assert [record.getMessage() for record in caplog.records] == [
        "'x' carries no stamp that can be used: what it causes is not seen",
        "'y' carries no stamp that can be used: what it causes is not seen",
    ]


def test_a_refused_call_leaves_the_clock_as_it_was() -> None:
    server = Causality("server", policies=Policies(unstamped=Unstamped.REFUSE))

    with pytest.raises(NonParticipantError):
        server.request_in("order", {MESSAGE_HEADER: "peer:1", STAMP_HEADER: FORGED})

    assert server.stamp().to_dict() == {}
    assert server.figures().calls_refused == 1


def test_a_task_is_a_process_of_its_own_that_begins_where_it_was_started() -> None:
    recorder = Recorder()
    causality = Causality("p", reporter=recorder.reporter("p"), lanes=1, lane_reporter=recorder.reporter)
    causality.event("before")
    with causality.task() as name:
        inside = causality.event("inside")
        with causality.task() as shared:
            pass
    causality.event("after")

    assert (name, shared, inside) == ("p#1", "p#1", "p#1:2")
    assert causality.figures().tasks_sharing == 1
    before = recorded_before(recorder.events())
    assert (("p", 1), ("p#1", 2)) in before
    assert (("p#1", 2), ("p", 3)) not in before  # What the task did is not a cause of what the process does.


def test_lanes_are_used_again_so_that_stamps_do_not_grow() -> None:
    causality = Causality("p", lanes=2)
    for _ in range(50):
        with causality.task():
            last = causality.stamp()

    assert set(last) == {"p", "p#2", "p#1"} or set(last) == {"p", "p#1"}


def test_threads_that_call_at_once_get_a_message_each() -> None:
    recorder = Recorder()
    client = Causality("client", reporter=recorder.reporter("client"))
    server = Causality("server", reporter=recorder.reporter("server"))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(25):
                call = client.request_out("order")
                client.reply_in(call, server.reply_out(server.request_in("order", call.headers)))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    events = recorder.events()
    assert not failures
    assert len(events) == 800
    assert client.figures().received == server.figures().received == 200
    sent = [message for event in events for message in event.sends]
    assert sorted(sent) == sorted(message for event in events for message in event.receives)
    assert len(set(sent)) == 400


def test_a_reporter_must_fit() -> None:
    with Reporter(print, process="p") as plain, pytest.raises(InputError, match="needs its name and a clock"):
        Causality("p", reporter=plain)
    with Reporter(print, process="p", stamps=True) as stamped, pytest.raises(InputError, match="no clock of its own"):
        Causality("p", reporter=stamped, ordering=True)
    with pytest.raises(InputError, match="neither lanes nor a view"):
        Causality("p", ordering=True, lanes=1)
    with pytest.raises(InputError, match="deadline"):
        Policies(deadline=float("nan"))
    with pytest.raises(InputError, match="pool_size"):
        Policies(pool_size=0)
