"""Differences over real HTTP and gRPC: servers that restart, or take turns; bodies that are streams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import httpx
import pytest
from http_services import served
from plans import until

from beforehand.rpc import (
    AioCausalServerInterceptor,
    AsyncCausalTransport,
    CausalClientInterceptor,
    Causality,
    CausalMiddleware,
    CausalServerInterceptor,
    CausalTransport,
    Policies,
    Unstamped,
    aio_client_interceptors,
    causal_channel,
)
from beforehand.rpc.headers import DIFFERENCE_HEADER, STAMP_HEADER

STRICT = Policies(unstamped=Unstamped.REFUSE)


class Turns:
    """Several servers that take turns, as behind a load balancer; it notes what they handled."""

    def __init__(self, *causalities: Causality) -> None:
        self.apps = [CausalMiddleware(self.handle, causality) for causality in causalities]
        self.came = 0
        self.headers: list[set[str]] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.came += 1
        self.headers.append({key.decode() for key, _ in scope["headers"] if key.startswith(b"beforehand")})
        await self.apps[self.came % len(self.apps)](scope, receive, send)

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            part = await receive()
            body += part.get("body", b"")
            more = part.get("more_body", False)
        self.bodies.append(body)
        moved = scope["path"] == "/old"
        extra = [(b"location", b"/new")] if moved else []
        await send({"type": "http.response.start", "status": 307 if moved else 200, "headers": extra})
        await send({"type": "http.response.body", "body": body})


def test_http_servers_that_take_turns_handle_each_call_once_and_are_soon_all_known() -> None:
    client = Causality("client", policies=STRICT)
    turns = Turns(*(Causality(f"server-{number}", policies=STRICT) for number in range(3)))
    with served(turns) as address, httpx.Client(transport=CausalTransport(client)) as http:
        got = [http.post(f"{address}/do", content=b"%d" % number).content for number in range(15)]

    assert got == turns.bodies == [b"%d" % number for number in range(15)]
    assert client.figures().bases_unknown == 1
    assert turns.came == 16
    assert client.figures().calls_failed == 0
    assert turns.headers[-1] == {DIFFERENCE_HEADER}
    assert set(client.stamp()) == {"client", "server-0", "server-1", "server-2"}


def test_with_asyncio_too() -> None:
    async def run(address: str, client: Causality) -> list[bytes]:
        async with httpx.AsyncClient(transport=AsyncCausalTransport(client)) as http:
            return [(await http.post(f"{address}/do", content=b"%d" % number)).content for number in range(15)]

    client = Causality("client", policies=STRICT)
    turns = Turns(*(Causality(f"server-{number}", policies=STRICT) for number in range(2)))
    with served(turns) as address:
        got = asyncio.run(run(address, client))

    assert got == turns.bodies == [b"%d" % number for number in range(15)]
    assert client.figures().bases_unknown == 1


def test_a_body_that_is_a_stream_goes_with_a_full_stamp() -> None:
    client = Causality("client", policies=STRICT)
    turns = Turns(Causality("server", policies=STRICT))
    with served(turns) as address, httpx.Client(transport=CausalTransport(client)) as http:
        for _ in range(3):
            assert http.post(f"{address}/do", content=iter([b"a", b"b"])).content == b"ab"

    assert all(STAMP_HEADER in headers for headers in turns.headers)
    assert client.figures().bases_unknown == 0


def test_a_redirected_request_carries_only_its_own_stamp() -> None:
    client = Causality("client", policies=STRICT)
    turns = Turns(Causality("server", policies=STRICT))
    with (
        served(turns) as address,
        httpx.Client(transport=CausalTransport(client), follow_redirects=True) as http,
    ):
        for _ in range(2):
            assert http.post(f"{address}/old", content=b"x").content == b"x"

    assert [DIFFERENCE_HEADER in headers for headers in turns.headers] == [False, True, True, True]
    assert all(len(headers) == 1 for headers in turns.headers[1:])
    assert client.stamp().to_dict() == {"client": 8, "server": 8}


class Switching(grpc.ServerInterceptor):
    """A server that restarts: the next life is another process behind the same address."""

    def __init__(self, *names: str, ordering: bool = False) -> None:
        self.lives = [Causality(name, policies=STRICT, ordering=ordering) for name in names]
        self._interceptors = [CausalServerInterceptor(life) for life in self.lives]
        self.at = 0

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        return self._interceptors[self.at].intercept_service(continuation, handler_call_details)


@contextmanager
def serving(interceptor: grpc.ServerInterceptor, handled: list[bytes]) -> Iterator[str]:
    def do(request: bytes, context: grpc.ServicerContext) -> bytes:
        handled.append(request)
        return request

    server = grpc.server(ThreadPoolExecutor(4), interceptors=[interceptor])
    handlers = {"do": grpc.unary_unary_rpc_method_handler(do)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait(10)


@pytest.mark.parametrize("way", ["interceptor", "channel", "future"])
def test_a_grpc_server_that_restarted_is_sent_the_whole_stamp(way: str) -> None:
    client, switching, handled = Causality("client", policies=STRICT), Switching("server-1", "server-2"), []
    with serving(switching, handled) as address, grpc.insecure_channel(address) as plain:
        if way == "channel":
            channel = causal_channel(plain, client)
        else:
            channel = grpc.intercept_channel(plain, CausalClientInterceptor(client))
        do = channel.unary_unary("/shop/do")

        def called(request: bytes) -> bytes:
            return do.future(request, timeout=20).result() if way == "future" else do(request, timeout=20)

        got = [called(b"1"), called(b"2")]
        until(lambda: client.figures().received == 2)
        switching.at = 1
        got += [called(b"3"), called(b"4")]
        until(lambda: client.figures().received == 4)

    assert got == handled == [b"1", b"2", b"3", b"4"]
    assert (client.figures().bases_unknown, client.figures().calls_failed) == (1, 0)
    assert client.figures().sent_differences == 2
    assert client.stamp().to_dict() == {"client": 10, "server-1": 4, "server-2": 4}
    assert switching.lives[1].stamp().to_dict() == {"client": 9, "server-1": 4, "server-2": 4}


def test_a_future_that_is_made_twice_tells_its_end_once() -> None:
    client, switching, handled = Causality("client", policies=STRICT), Switching("server-1", "server-2"), []
    with serving(switching, handled) as address, grpc.insecure_channel(address) as plain:
        do = grpc.intercept_channel(plain, CausalClientInterceptor(client)).unary_unary("/shop/do")
        do(b"1")
        switching.at = 1
        future = do.future(b"2", timeout=20)
        told: list[Any] = []
        future.add_done_callback(told.append)

        assert future.result(20) == b"2"
        assert future.code() is grpc.StatusCode.OK
        assert future.exception() is None
        until(lambda: len(told) == 1)
        future.add_done_callback(told.append)
        assert not future.add_callback(lambda: None)

    assert future.done()
    assert not future.running()
    assert not future.is_active()
    assert told == [future, future]
    assert handled == [b"1", b"2"]


def test_a_grpc_server_of_asyncio_that_restarted_is_sent_the_whole_stamp() -> None:
    async def run() -> tuple[list[bytes], Causality]:
        client = Causality("client", policies=STRICT)
        lives = [AioCausalServerInterceptor(Causality(name, policies=STRICT)) for name in ("server-1", "server-2")]
        at = [0]

        class SwitchingAio(grpc.aio.ServerInterceptor):
            async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
                return await lives[at[0]].intercept_service(continuation, handler_call_details)

        async def do(request: bytes, context: Any) -> bytes:
            return request

        running = grpc.aio.server(interceptors=[SwitchingAio()])
        handlers = {"do": grpc.unary_unary_rpc_method_handler(do)}
        running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop", handlers),))
        port = running.add_insecure_port("127.0.0.1:0")
        await running.start()
        got = []
        interceptors = aio_client_interceptors(client)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", interceptors=interceptors) as channel:
            for number in range(4):
                at[0] = number // 2
                got.append(await channel.unary_unary("/shop/do")(b"%d" % number, timeout=20))
        await running.stop(None)
        return got, client

    got, client = asyncio.run(run())

    assert got == [b"0", b"1", b"2", b"3"]
    assert client.stamp().to_dict() == {"client": 10, "server-1": 4, "server-2": 4}
    assert client.figures().bases_unknown == 1


def test_all_four_kinds_of_calls_go_through_a_causal_channel() -> None:
    server, client = Causality("server", policies=STRICT), Causality("client", policies=STRICT)
    handlers = {
        "uu": grpc.unary_unary_rpc_method_handler(lambda request, context: request),
        "us": grpc.unary_stream_rpc_method_handler(lambda request, context: iter([request, request])),
        "su": grpc.stream_unary_rpc_method_handler(lambda requests, context: b"".join(requests)),
        "ss": grpc.stream_stream_rpc_method_handler(lambda requests, context: (r for r in requests)),
    }
    running = grpc.server(ThreadPoolExecutor(4), interceptors=[CausalServerInterceptor(server)])
    running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop", handlers),))
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    with causal_channel(grpc.insecure_channel(f"127.0.0.1:{port}"), client, peer=lambda method: "server") as channel:
        got = [channel.unary_unary("/shop/uu")(b"a", metadata=(("x", "y"),))]
        got += [channel.unary_unary("/shop/uu").with_call(b"b", 20)[0]]
        got += [channel.unary_unary("/shop/uu").future(b"c").result()]
        got += [b"".join(channel.unary_stream("/shop/us")(b"d"))]
        got += [channel.stream_unary("/shop/su")(iter([b"e", b"f"]))]
        got += [b"".join(channel.stream_stream("/shop/ss")(iter([b"g", b"h"])))]
        until(lambda: client.figures().received == 6)
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/shop/nowhere")(b"x")
    running.stop(None).wait(10)

    assert got == [b"a", b"b", b"c", b"dd", b"ef", b"gh"]
    assert client.stamp()["server"] == 12
    assert client.figures().calls_failed == 1


def test_in_causal_ordering_calls_go_as_differences_too() -> None:
    client = Causality("client", policies=STRICT, ordering=True)
    switching, handled = Switching("server", ordering=True), []
    with (
        serving(switching, handled) as address,
        causal_channel(grpc.insecure_channel(address), client, peer="server") as channel,
    ):
        do = channel.unary_unary("/shop/do")
        got = [do(b"1"), do(b"2")]

    assert got == handled == [b"1", b"2"]
    assert (client.figures().sent_differences, switching.lives[0].figures().sent_differences) == (1, 2)
