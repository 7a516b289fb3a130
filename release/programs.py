"""A small program for each extra: it uses the rooms that the extra is for, and fails if they do not work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ILL_TYPED", "PROGRAMS", "WELL_TYPED"]

_BASE: Final = """
import sys
import beforehand
from beforehand.clocks import VectorClock
from beforehand.diagram import draw
from beforehand.events import Event
from beforehand.formats import read_events
from beforehand.ordering import PROTOCOLS
from beforehand.predicate import Predicate
from beforehand.reporting import Reporter
from beforehand.rpc import Causality
from beforehand.runtime import Group, TcpTransport

events = list(read_events("shop.jsonl"))
assert len(events) == 108
assert "<svg" in draw([Event(process="a", index=1, sends=("m",)), Event(process="b", index=1, receives=("m",))])
assert sum(map(Predicate.parse("attributes.level = error"), events)) == 1
assert VectorClock("a").tick().to_dict() == {"a": 1}
assert len(PROTOCOLS) == 15
assert Causality("a").process == "a"
heavy = {"numpy", "numba", "pyspark", "pyarrow", "fastapi", "nats", "httpx", "grpc"} & set(sys.modules)
assert not heavy, heavy
"""

_HISTORY: Final = """
from beforehand.formats import read_events, write_events
from beforehand.history import History
from beforehand.predicate import Predicate
from beforehand.sim import draw, simulate

events = list(read_events("shop.jsonl"))
history = History(events)
assert len(history.explain("orders:17", last=1_000).events) == 105
assert history.check().violations[0].kind == "causal"
assert sum(map(Predicate.parse("name ~ fail"), events)) == 1
assert write_events(events, "shop.jsonl.zst") == len(list(read_events("shop.jsonl.zst"))) == 108
assert not simulate(draw("causal-broadcast", seed=1)).verdict.failures
"""

_PIPELINE: Final = """
import beforehand

found = beforehand.open("shop").explain("orders:17", last=3)
assert [str(event.id) for event in found.events] == ["cart:35", "cart:36", "orders:16"]
"""

_SERVICE: Final = """
import sys
from pathlib import Path
from beforehand.service.serving import Options, Service

with Service(Options(store=Path("program.db"), port=0)) as service:
    assert service.served.needs_token is False
"""

_NATS: Final = """
from beforehand.runtime import LiveMerger, NatsTransport, Publisher, StreamAddress

assert StreamAddress.parse("nats://127.0.0.1:4222/A").stream == "A"
"""

_BROKER: Final = """
import asyncio
from beforehand.runtime import EmbeddedBroker, connect

async def main():
    with EmbeddedBroker() as broker:
        connection = await connect(broker.url)
        await connection.close()

asyncio.run(main())
"""

_HTTP: Final = """
import asyncio
import httpx
from beforehand.rpc import AsyncCausalTransport, CausalMiddleware, Causality

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})

async def main():
    page, cart = Causality("page"), Causality("cart")
    inner = httpx.ASGITransport(CausalMiddleware(app, cart))
    async with httpx.AsyncClient(transport=AsyncCausalTransport(page, inner), base_url="http://cart") as client:
        assert (await client.get("/")).status_code == 204
    assert page.stamp().to_dict() == {"page": 2, "cart": 2}

asyncio.run(main())
"""

_GRPC: Final = """
from concurrent.futures import ThreadPoolExecutor
import grpc
from beforehand.rpc import CausalServerInterceptor, Causality, causal_channel

stock, cart = Causality("stock"), Causality("cart")
server = grpc.server(ThreadPoolExecutor(2), interceptors=[CausalServerInterceptor(stock)])
handler = grpc.unary_unary_rpc_method_handler(lambda request, context: b"reserved " + request)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Stock", {"Reserve": handler}),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with causal_channel(grpc.insecure_channel(f"127.0.0.1:{port}"), cart) as channel:
    assert channel.unary_unary("/shop.Stock/Reserve")(b"tea") == b"reserved tea"
server.stop(None).wait()
assert cart.stamp().to_dict() == {"cart": 2, "stock": 2}
"""

_OPENTELEMETRY: Final = """
from beforehand.rpc import Causality, CausalSpanProcessor, StampPropagator

carrier = {}
StampPropagator(Causality("a")).inject(carrier)
assert carrier
assert CausalSpanProcessor(Causality("b")) is not None
"""

PROGRAMS: Final[Mapping[str, str]] = {
    "base": _BASE,
    "history": _HISTORY,
    "pipeline": _PIPELINE,
    "service": _SERVICE,
    "nats": _NATS,
    "broker": _BROKER,
    "http": _HTTP,
    "grpc": _GRPC,
    "opentelemetry": _OPENTELEMETRY,
}

WELL_TYPED: Final = """
from beforehand.clocks import VectorClock
from beforehand.events import Event

event = Event(process="a", index=1)
name: str = event.process
stamp: dict[str, int] = dict(VectorClock("a").tick().to_dict())
"""
"""A type checker must have nothing to say of this."""

ILL_TYPED: Final = """
from beforehand.events import Event

event = Event(process="a", index="1")
name: int = event.process
"""
"""And must find both mistakes in this, which it does only if the installed package is typed."""
