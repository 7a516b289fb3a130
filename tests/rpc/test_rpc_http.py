"""Three services on real servers: what is recorded is what the programs did."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from contextlib import ExitStack

import httpx
import pytest
from fastapi import FastAPI
from http_services import name_of, plan_service, served
from plans import SERVICES, Recorder, Truth, calls_in, kinds, random_plan, recorded_before, until

from beforehand.clocks import VectorStamp
from beforehand.errors import NonParticipantError, StampTooLargeError
from beforehand.rpc import (
    AsyncCausalTransport,
    Causality,
    CausalMiddleware,
    CausalTransport,
    Oversize,
    Policies,
    Unstamped,
)
from beforehand.rpc.headers import MESSAGE_HEADER, STAMP_HEADER

STRICT = Policies(unstamped=Unstamped.REFUSE)


async def echo(scope, receive, send):
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    status = int(scope["path"].strip("/") or 200)
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b"" if status == 204 else body})


@pytest.mark.parametrize("ordering", [False, True], ids=["timestamps", "ordering"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_three_services_record_exactly_what_happened(seed: int, ordering: bool) -> None:
    draw, truth, recorder, addresses = random.Random(seed), Truth(), Recorder(), {}
    with ExitStack() as stack:
        for name in SERVICES:
            causality = Causality(
                name, reporter=recorder.reporter(name, stamps=not ordering), policies=STRICT, ordering=ordering
            )
            stack.enter_context(plan_service(causality, truth, addresses))
        clients = {
            name: Causality(
                name, reporter=recorder.reporter(name, stamps=not ordering), policies=STRICT, ordering=ordering
            )
            for name in ("alice", "bob")
        }
        http = {
            name: stack.enter_context(
                httpx.Client(transport=CausalTransport(clients[name], peer=lambda url: name_of(addresses, url)))
            )
            for name in clients
        }
        for number in range(4):
            who = draw.choice(["alice", "bob"])
            plan = random_plan(draw, f"{number}", 2)
            truth.note(who, "call", plan["call"])
            assert http[who].post(f"{addresses[plan['to']]}/do", json=plan).json() == {"done": plan["call"]}
            truth.note(who, "answered", plan["call"])

    events = recorder.events()

    assert kinds(events) == {process: [kind for kind, _ in steps] for process, steps in truth.steps.items()}
    assert recorded_before(events) == truth.happened_before()


@pytest.mark.parametrize("tasks", [False, True], ids=["per process", "per task"])
def test_many_threads_and_tasks_lose_no_event_and_keep_stamps_exact(tasks: bool) -> None:
    draw, truth, recorder, addresses = random.Random(7), Truth(), Recorder(), {}
    with ExitStack() as stack:
        for name in SERVICES:
            causality = Causality(
                name,
                reporter=recorder.reporter(name),
                policies=STRICT,
                lanes=3 if tasks else 0,
                lane_reporter=recorder.reporter,
            )
            stack.enter_context(plan_service(causality, truth, addresses, tasks=tasks))
        client = Causality("client", reporter=recorder.reporter("client"), policies=STRICT)
        http = stack.enter_context(httpx.Client(transport=CausalTransport(client)))
        plans = [random_plan(draw, f"{number}", 1) for number in range(16)]

        def run(chosen) -> None:
            for plan in chosen:
                http.post(f"{addresses[plan['to']]}/do", json=plan).raise_for_status()

        threads = [threading.Thread(target=run, args=(plans[number::4],)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    events = recorder.events()

    calls = [event for event in events if event.name.startswith("call ")]
    assert len(calls) == sum(calls_in(plan) for plan in plans)
    received = {message for event in events for message in event.receives}
    assert all(event.sends[0] in received for event in calls)
    assert sum(event.name.startswith("answered ") for event in events) == len(calls)
    recorded_before(events)
    if tasks:
        assert any("#" in event.process for event in events)


def test_a_call_that_fails_keeps_its_send_and_each_attempt_is_a_new_message() -> None:
    recorder = Recorder()
    client = Causality("client", reporter=recorder.reporter("client"))
    with socket.socket() as bound, httpx.Client(transport=CausalTransport(client)) as http:
        bound.bind(("127.0.0.1", 0))  # Nobody listens.
        for _ in range(3):
            with pytest.raises(httpx.ConnectError):
                http.get(f"http://127.0.0.1:{bound.getsockname()[1]}/items")

    events = recorder.events()

    assert [(event.name, event.sends) for event in events] == [
        ("call GET /items", ("client:1",)),
        ("call GET /items failed", ()),
        ("call GET /items", ("client:3",)),
        ("call GET /items failed", ()),
        ("call GET /items", ("client:5",)),
        ("call GET /items failed", ()),
    ]
    assert events[1].attributes == {"level": "error", "error": "ConnectError"}
    assert client.figures().calls_failed == 3


def test_a_call_that_times_out_is_received_though_its_reply_is_not() -> None:
    recorder, held = Recorder(), threading.Event()
    server = Causality("server", reporter=recorder.reporter("server"))
    client = Causality("client", reporter=recorder.reporter("client"))
    arrived = threading.Event()

    async def slow(scope, receive, send):
        arrived.set()
        await asyncio.to_thread(held.wait, 20)
        await echo({"path": "/200"}, receive, send)

    with served(CausalMiddleware(slow, server)) as address, httpx.Client(transport=CausalTransport(client)) as http:
        with pytest.raises(httpx.ReadTimeout):
            http.get(f"{address}/slow", timeout=0.3)
        assert arrived.wait(10)
        held.set()

    events = {event.name: event for event in recorder.events()}

    assert events["serve GET /slow"].receives == events["call GET /slow"].sends
    assert events["call GET /slow failed"].attributes["error"] == "ReadTimeout"
    assert events["answer GET /slow"].clock == {"client": 1, "server": 2}
    assert client.stamp().to_dict() == {"client": 2}


@pytest.mark.parametrize(
    ("policy", "status", "warnings"),
    [(Unstamped.ACCEPT, 200, 0), (Unstamped.WARN, 200, 1), (Unstamped.REFUSE, 400, 0)],
)
def test_a_peer_without_stamps_is_accepted_warned_of_or_refused(policy, status, warnings, caplog) -> None:
    server = Causality("server", policies=Policies(unstamped=policy))
    with served(CausalMiddleware(echo, server)) as address, httpx.Client() as plain:
        replies = [plain.post(f"{address}/200", content=b"x") for _ in range(2)]

    assert [reply.status_code for reply in replies] == [status, status]
    assert not any(key.startswith("beforehand-") and key != "beforehand-refused" for key in replies[0].headers)
    assert len(caplog.records) == warnings
    assert server.figures().received_unstamped == 2
    if policy is Unstamped.REFUSE:
        assert replies[0].json() == {"error": "'127.0.0.1' sent no stamp: its causes would be lost (policy: refuse)"}
        assert server.stamp().to_dict() == {}


def test_a_server_without_stamps_is_refused_by_a_caller_that_wants_them() -> None:
    client = Causality("client", policies=Policies(unstamped=Unstamped.REFUSE))
    with (
        served(echo) as address,
        httpx.Client(transport=CausalTransport(client)) as http,
        pytest.raises(NonParticipantError),
    ):
        http.post(f"{address}/200", content=b"x")


def test_a_reply_without_a_result_is_ignored_where_that_is_asked_for() -> None:
    policies = Policies(unstamped=Unstamped.REFUSE, ignore_replies_without_result=True)
    server, client = Causality("server", policies=policies), Causality("client", policies=policies)
    with served(CausalMiddleware(echo, server)) as address, httpx.Client(transport=CausalTransport(client)) as http:
        http.post(f"{address}/204")
        ignored = client.stamp().to_dict()
        http.post(f"{address}/200")

    assert ignored == {"client": 1}
    assert client.stamp().to_dict() == {"client": 3, "server": 3}


def test_an_oversize_stamp_is_left_out_whole_or_the_call_is_refused() -> None:
    recorder = Recorder()
    server = Causality("server", reporter=recorder.reporter("server"))
    going_on = Causality("a" * 100, reporter=recorder.reporter("a" * 100))
    refusing = Causality("b" * 100, policies=Policies(oversize=Oversize.REFUSE))
    with served(CausalMiddleware(echo, server)) as address:
        with httpx.Client(transport=CausalTransport(going_on, limit=100)) as http:
            assert http.post(f"{address}/200", content=b"x").content == b"x"
        with httpx.Client(transport=CausalTransport(refusing, limit=100)) as http, pytest.raises(StampTooLargeError):
            http.post(f"{address}/200", content=b"x")

    assert (going_on.figures().sent_oversize, going_on.figures().sent) == (1, 0)
    assert (refusing.figures().sent_oversize, refusing.figures().calls_refused) == (1, 1)
    assert server.figures().received_unstamped == 1
    assert server.stamp().to_dict() == {"server": 2}
    serve = next(event for event in recorder.events() if event.name == "serve POST /200")
    assert serve.receives == ("a" * 100 + ":1",)  # A history still knows the message.


def test_a_stamp_that_comes_twice_is_refused() -> None:
    server, stamp = Causality("server"), VectorStamp({"peer": 1}).to_text()
    with served(CausalMiddleware(echo, server)) as address, httpx.Client() as plain:
        headers = [("beforehand-message", "peer:1"), ("beforehand-stamp", stamp), ("beforehand-stamp", stamp)]
        assert plain.post(f"{address}/200", headers=headers).status_code == 200

    assert (server.figures().stamps_refused, server.figures().received) == (1, 0)


@pytest.mark.parametrize("ordering", [False, True], ids=["timestamps", "ordering"])
def test_under_a_delay_calls_are_handled_in_causal_order_only_where_that_is_asked_for(ordering: bool) -> None:
    policies = Policies(unstamped=Unstamped.ACCEPT, deadline=20)
    a, b, c = (Causality(name, ordering=ordering, policies=policies) for name in "abc")
    handled: list[str] = []
    released = threading.Event()
    addresses: dict[str, str] = {}

    async def target(scope, receive, send):
        handled.append(scope["path"])
        await echo({"path": "/200"}, receive, send)

    causal = CausalMiddleware(target, c)

    async def delaying(scope, receive, send):  # The network: what a sends is held up.
        if scope["path"] == "/first":
            await asyncio.to_thread(released.wait, 20)
        await causal(scope, receive, send)

    async def relay(scope, receive, send):
        transport = AsyncCausalTransport(b, peer=lambda url: "c")
        async with httpx.AsyncClient(transport=transport, timeout=20) as client:
            await client.post(f"{addresses['c']}/second")
        await echo({"path": "/200"}, receive, send)

    with ExitStack() as stack:
        addresses["c"] = stack.enter_context(served(delaying))
        addresses["b"] = stack.enter_context(served(CausalMiddleware(relay, b)))
        transport = CausalTransport(a, peer=lambda url: name_of(addresses, url))
        http = stack.enter_context(httpx.Client(transport=transport, timeout=20))
        threads = [threading.Thread(target=http.post, args=(f"{addresses['c']}/first",))]
        threads[0].start()
        until(lambda: a.figures().sent == 1)
        threads.append(threading.Thread(target=http.post, args=(f"{addresses['b']}/relay",)))
        threads[1].start()
        until(lambda: bool(c.figures().waiting or handled))
        if not ordering:
            threads[1].join(20)
        released.set()
        for thread in threads:
            thread.join(20)

    assert handled == (["/first", "/second"] if ordering else ["/second", "/first"])
    assert c.figures().late == 0


def test_a_call_that_cannot_be_ordered_in_time_is_unavailable_with_one_line() -> None:
    policies = Policies(unstamped=Unstamped.REFUSE, deadline=0.05)
    server, client = (Causality(name, ordering=True, policies=policies) for name in ("server", "client"))
    client.request_out("lost", to="server")
    with (
        served(CausalMiddleware(echo, server)) as address,
        httpx.Client(transport=CausalTransport(client, peer=lambda url: "server")) as http,
    ):
        reply = http.post(f"{address}/200", content=b"x")

    assert reply.status_code == 503
    assert reply.json() == {"error": "not deliverable in time: event client:1 is not known here yet"}
    assert client.figures().calls_failed == 1


def test_interfaces_that_are_left_out_carry_nothing() -> None:
    client = Causality("client", only=lambda interface: interface != "POST /201")
    server = Causality("server", only=lambda interface: interface != "POST /201")
    with served(CausalMiddleware(echo, server)) as address, httpx.Client(transport=CausalTransport(client)) as http:
        http.post(f"{address}/201")
        assert (client.stamp().to_dict(), server.stamp().to_dict()) == ({}, {})
        http.post(f"{address}/202")

    assert client.stamp().to_dict() == {"client": 2, "server": 2}


def test_an_error_page_of_the_application_carries_a_stamp() -> None:
    api = FastAPI()

    @api.get("/broken")
    def broken() -> None:
        raise ZeroDivisionError

    server, client = Causality("server"), Causality("client", policies=STRICT)
    with (
        served(CausalMiddleware(api, server)) as address,
        httpx.Client(transport=CausalTransport(client)) as http,
    ):
        assert http.get(f"{address}/broken").status_code == 500

    assert client.stamp().to_dict() == {"client": 2, "server": 2}


def test_stamps_that_an_application_passes_on_are_replaced_even_if_there_are_two() -> None:
    sent: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers)
        return httpx.Response(200)

    with httpx.Client(transport=CausalTransport(Causality("a"), httpx.MockTransport(answer))) as client:
        client.get("http://b/", headers=[(MESSAGE_HEADER, "x:1"), (MESSAGE_HEADER, "x:2"), ("Beforehand-Stamp", "y")])
    assert sent[0].get_list(MESSAGE_HEADER) == ["a:1"]
    assert sent[0][STAMP_HEADER] != "y"
