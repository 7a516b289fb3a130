"""gRPC, blocking and with asyncio, on real servers; generic handlers, so that no compiler is needed."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import grpc
import pytest
from plans import SERVICES, Plan, Recorder, Truth, kinds, random_plan, recorded_before, until

from beforehand.errors import NonParticipantError, StampTooLargeError
from beforehand.rpc import (
    AioCausalServerInterceptor,
    CausalClientInterceptor,
    Causality,
    CausalServerInterceptor,
    Policies,
    Unstamped,
    aio_client_interceptors,
)
from beforehand.rpc.grpc_future import RepeatingFuture

STRICT = Policies(unstamped=Unstamped.REFUSE)


@contextmanager
def served(handlers: dict[str, grpc.RpcMethodHandler], *interceptors: grpc.ServerInterceptor) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(8), interceptors=interceptors)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait(10)


@contextmanager
def calling(address: str, *interceptors: grpc.UnaryUnaryClientInterceptor) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address) as channel:
        yield grpc.intercept_channel(channel, *interceptors)


def unary(behaviour: Callable[[bytes, grpc.ServicerContext], bytes]) -> grpc.RpcMethodHandler:
    return grpc.unary_unary_rpc_method_handler(behaviour)


def echo(request: bytes, context: grpc.ServicerContext) -> bytes:
    return request


@contextmanager
def plan_service(causality: Causality, truth: Truth, addresses: dict[str, str]) -> Iterator[None]:
    name = causality.process

    def do(request: bytes, context: grpc.ServicerContext) -> bytes:
        plan: Plan = json.loads(request)
        truth.note(name, "serve", str(plan["call"]))
        for step in plan["then"]:  # type: ignore[attr-defined]
            carry_out(causality, truth, addresses, step)
        truth.note(name, "answer", str(plan["call"]))
        return b"done"

    with served({"do": unary(do)}, CausalServerInterceptor(causality)) as address:
        addresses[name] = address
        yield


def carry_out(causality: Causality, truth: Truth, addresses: dict[str, str], plan: Plan) -> None:
    name, to = causality.process, str(plan["to"])
    truth.note(name, "call", str(plan["call"]))
    with calling(addresses[to], CausalClientInterceptor(causality, peer=to)) as channel:
        assert channel.unary_unary("/shop/do")(json.dumps(plan).encode()) == b"done"
    truth.note(name, "answered", str(plan["call"]))


@pytest.mark.parametrize("ordering", [False, True], ids=["timestamps", "ordering"])
def test_three_services_record_exactly_what_happened(ordering: bool) -> None:
    draw, truth, recorder, addresses = random.Random(5), Truth(), Recorder(), {}

    def made(name: str) -> Causality:
        return Causality(
            name, reporter=recorder.reporter(name, stamps=not ordering), policies=STRICT, ordering=ordering
        )

    with ExitStack() as stack:
        for name in SERVICES:
            stack.enter_context(plan_service(made(name), truth, addresses))
        clients = {name: made(name) for name in ("alice", "bob")}
        for number in range(4):
            carry_out(clients[draw.choice(["alice", "bob"])], truth, addresses, random_plan(draw, f"{number}", 2))

    events = recorder.events()

    assert kinds(events) == {process: [kind for kind, _ in steps] for process, steps in truth.steps.items()}
    assert recorded_before(events) == truth.happened_before()


def test_all_four_kinds_of_calls_carry_stamps_both_ways() -> None:
    server, client = Causality("server", policies=STRICT), Causality("client", policies=STRICT)
    handlers = {
        "uu": unary(echo),
        "us": grpc.unary_stream_rpc_method_handler(lambda request, context: iter([request, request])),
        "su": grpc.stream_unary_rpc_method_handler(lambda requests, context: b"".join(requests)),
        "ss": grpc.stream_stream_rpc_method_handler(lambda requests, context: (r for r in requests)),
    }
    with (
        served(handlers, CausalServerInterceptor(server)) as address,
        calling(address, CausalClientInterceptor(client)) as channel,
    ):
        got = [channel.unary_unary("/shop/uu")(b"a")]
        got += [b"".join(channel.unary_stream("/shop/us")(b"b"))]
        got += [channel.stream_unary("/shop/su")(iter([b"c", b"d"]))]
        stream = channel.stream_stream("/shop/ss")(iter([b"e", b"f"]))
        got += [b"".join(stream)]
        future = channel.unary_unary("/shop/uu").future(b"g")
        got += [future.result()]
        until(lambda: client.figures().received == 5)

    assert got == [b"a", b"bb", b"cd", b"ef", b"g"]
    assert client.stamp().to_dict() == {"client": 10, "server": 10}


def test_errors_of_handlers_carry_stamps_and_metadata_of_the_application_stays() -> None:
    def broken(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata((("app", "kept"),))
        context.abort(grpc.StatusCode.NOT_FOUND, "no such order")
        raise AssertionError

    server, client = Causality("server", policies=STRICT), Causality("client", policies=STRICT)
    with (
        served({"do": unary(broken)}, CausalServerInterceptor(server)) as address,
        calling(address, CausalClientInterceptor(client)) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary("/shop/do")(b"x")

    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert ("app", "kept") in [tuple(pair) for pair in caught.value.trailing_metadata()]
    assert client.stamp().to_dict() == {"client": 2, "server": 2}


def test_a_call_that_cannot_be_made_again_is_over_and_not_waited_for_for_ever() -> None:
    first: grpc.Future = ThreadPoolExecutor(1).submit(lambda: "refused")

    def repeat() -> grpc.Future:
        raise StampTooLargeError(size=2, limit=1)

    future = RepeatingFuture(first, is_refused=lambda _: True, repeat=repeat, finish=lambda _: None)

    assert future.result(10) == "refused"
    assert future.done()


def test_a_call_that_times_out_or_finds_nobody_failed_and_each_attempt_is_a_message() -> None:
    recorder, held = Recorder(), threading.Event()
    server = Causality("server", reporter=recorder.reporter("server"))
    client = Causality("client", reporter=recorder.reporter("client"))

    def slow(request: bytes, context: grpc.ServicerContext) -> bytes:
        held.wait(20)
        return b""

    with (
        served({"do": unary(slow)}, CausalServerInterceptor(server)) as address,
        calling(address, CausalClientInterceptor(client)) as channel,
    ):
        for _ in range(2):
            with pytest.raises(grpc.RpcError):
                channel.unary_unary("/shop/do")(b"x", timeout=0.3)
        until(lambda: server.figures().received == 2)
        held.set()
        until(lambda: server.stamp()["server"] == 4)  # Else they may answer after the recorder was closed.
    with calling(address, CausalClientInterceptor(client)) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/shop/do")(b"x", timeout=5)

    mine = [event for event in recorder.events() if event.process == "client"]
    assert [(event.name.split(" ", 2)[0], event.sends) for event in mine] == [
        ("call", ("client:1",)),
        ("call", ()),
        ("call", ("client:3",)),
        ("call", ()),
        ("call", ("client:5",)),
        ("call", ()),
    ]
    assert [e.attributes["error"] for e in mine[1::2]] == ["DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "UNAVAILABLE"]


def test_a_caller_without_stamps_is_refused_with_one_line() -> None:
    server = Causality("server", policies=STRICT)
    with (
        served({"do": unary(echo)}, CausalServerInterceptor(server)) as address,
        calling(address) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary("/shop/do")(b"x")

    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details().endswith("sent no stamp: its causes would be lost (policy: refuse)")
    assert "\n" not in caught.value.details()


def test_a_server_without_stamps_is_refused_by_a_caller_that_wants_them() -> None:
    client = Causality("client", policies=STRICT)
    with (
        served({"do": unary(echo)}) as address,
        calling(address, CausalClientInterceptor(client)) as channel,
        pytest.raises(NonParticipantError),
    ):
        channel.unary_unary("/shop/do")(b"x")


def test_calls_out_of_order_wait_and_are_unavailable_at_the_deadline() -> None:
    policies = Policies(unstamped=Unstamped.REFUSE, deadline=0.1)
    server, client = (Causality(name, ordering=True, policies=policies) for name in ("server", "client"))
    lost = client.request_out("/shop/do", to="server")
    with (
        served({"do": unary(echo)}, CausalServerInterceptor(server)) as address,
        calling(address, CausalClientInterceptor(client, peer="server")) as channel,
    ):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/shop/do")(b"x")
        server.request_in("/shop/do", lost.headers)  # It arrives after all.
        again = channel.unary_unary("/shop/do")(b"x")

    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert caught.value.details() == "not deliverable in time: event client:1 is not known here yet"
    assert again == b"x"
    assert (server.figures().late, server.figures().voided) == (1, 1)


def test_with_asyncio_all_four_kinds_of_calls_carry_stamps_both_ways() -> None:
    asyncio.run(_aio(ordering=False))


def test_with_asyncio_and_causal_ordering_too() -> None:
    asyncio.run(_aio(ordering=True))


async def _aio(*, ordering: bool) -> None:
    server, client = (Causality(name, policies=STRICT, ordering=ordering) for name in ("server", "client"))

    async def single(request, context):
        return request

    async def joined(requests, context):
        return b"".join([request async for request in requests])

    async def twice(request, context):
        yield request
        yield request

    async def same(requests, context):
        async for request in requests:
            yield request

    async def broken(request, context):
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such order", (("app", "kept"),))

    running = grpc.aio.server(interceptors=[AioCausalServerInterceptor(server)])
    handlers = {
        "uu": grpc.unary_unary_rpc_method_handler(single),
        "us": grpc.unary_stream_rpc_method_handler(twice),
        "su": grpc.stream_unary_rpc_method_handler(joined),
        "ss": grpc.stream_stream_rpc_method_handler(same),
        "broken": grpc.unary_unary_rpc_method_handler(broken),
    }
    running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop", handlers),))
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    interceptors = aio_client_interceptors(client, peer=lambda method: "server")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", interceptors=interceptors) as channel:
        got = [await channel.unary_unary("/shop/uu")(b"a")]
        got += [b"".join([item async for item in channel.unary_stream("/shop/us")(b"b")])]
        got += [await channel.stream_unary("/shop/su")(iter([b"c", b"d"]))]
        got += [b"".join([item async for item in channel.stream_stream("/shop/ss")(iter([b"e", b"f"]))])]
        with pytest.raises(grpc.RpcError) as caught:
            await channel.unary_unary("/shop/broken")(b"x")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.RpcError) as refused:
            await channel.unary_unary("/shop/uu")(b"x")
    await running.stop(None)

    assert got == [b"a", b"bb", b"cd", b"ef"]
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert ("app", "kept") in [tuple(pair) for pair in caught.value.trailing_metadata()]
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert client.stamp().to_dict() == {"client": 10, "server": 10}
    assert client.figures().received == server.figures().received == 5


def test_with_asyncio_many_tasks_at_once_keep_their_counts() -> None:
    async def run() -> tuple[Causality, Causality]:
        server, client = Causality("server", policies=STRICT), Causality("client", policies=STRICT)

        async def single(request, context):
            await asyncio.sleep(0)
            return request

        running = grpc.aio.server(interceptors=[AioCausalServerInterceptor(server)])
        handlers = {"uu": grpc.unary_unary_rpc_method_handler(single)}
        running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop", handlers),))
        port = running.add_insecure_port("127.0.0.1:0")
        await running.start()
        interceptors = aio_client_interceptors(client)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", interceptors=interceptors) as channel:
            call = channel.unary_unary("/shop/uu")
            await asyncio.gather(*(_awaited(call(b"x")) for _ in range(50)))
        await running.stop(None)
        return server, client

    server, client = asyncio.run(run())

    assert client.stamp().to_dict() == {"client": 100, "server": 100}
    assert server.stamp()["server"] == 100


async def _awaited(call):
    return await call
