"""Calls without stamps, with causal timestamps and with causal ordering, over HTTP and gRPC (Berry 1995, 4.4).

python -m benchmarks.rpc [RUNS [CALLS]]

An echo between two processes on this machine. As in the paper the processes in a stamp have names of sixteen
characters, and a stamp of causal ordering has twice the entries: one row in its table besides its own time. Runs
alternate between all variants; a figure is the median over the runs of the ratio to the run without stamps in the
same round.

The *floor* is what the carrier takes by itself to bring 64 characters there and back: the same hooks, and nothing
done in them. *News* is a caller that hears of ten other processes between two calls: then differences have content.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

import grpc
import httpx
import uvicorn

from beforehand.clocks import OrderingStamp, VectorStamp, View
from beforehand.rpc import (
    CausalClientInterceptor,
    Causality,
    CausalMiddleware,
    CausalServerInterceptor,
    CausalTransport,
    Policies,
    Unstamped,
    causal_channel,
)
from beforehand.rpc.headers import written
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target

__all__ = ["report"]

SIZES: Final = (2, 10, 100, 1000)
NEWS: Final = "timestamps, ten entries new"
KINDS: Final = ("timestamps", NEWS, "timestamps, full", "timestamps in a view, full", "ordering", "ordering, full")
INTERCEPTED: Final = "timestamps, interceptor"  # gRPC only: the others use `causal_channel`.
LIMIT: Final = 90_000  # Characters: what both carriers take if told so (HTTP: the caller's parser takes 100 KiB).
PLAIN: Final = "without stamps"
FLOOR: Final = "floor"
FLOOR_INTERCEPTED: Final = "floor, interceptor"
CARRIED: Final = "x" * 64
STRICT: Final = Policies(unstamped=Unstamped.REFUSE)
FULL: Final = Policies(unstamped=Unstamped.REFUSE, differences=False)
RUNS: Final = 20
CALLS: Final = 50

Variant = tuple[str, int]
VARIANTS: Final[tuple[Variant, ...]] = tuple(
    (kind, size) for kind in KINDS for size in SIZES if kind != NEWS or size > 10
)
GRPC_VARIANTS: Final[tuple[Variant, ...]] = (*VARIANTS, *((INTERCEPTED, size) for size in SIZES))


class Timed(NamedTuple):
    """A call, and what its caller does before it, which is not measured."""

    call: Callable[[], object]
    before: Callable[[], object] | None = None


def names(size: int) -> list[str]:
    """Server and client, and others that they have heard of."""
    draw = random.Random(size)
    others = [f"{draw.getrandbits(64):016x}" for _ in range(size - 2)]
    return ["server".ljust(16, "-"), "client".ljust(16, "-"), *others]


def prepared(role: int, kind: str, size: int) -> Causality:
    """Of the server (0) or the client (1), which knows of `size` processes from the start."""
    members = names(size)
    me, others = members[role], members[2:]
    ordering = kind.startswith("ordering")
    view = View(members) if "view" in kind else None
    causality = Causality(me, ordering=ordering, view=view, policies=FULL if "full" in kind else STRICT)
    if not others:
        return causality
    time_known = VectorStamp({name: 1000 + at for at, name in enumerate(others)})
    sender = others[0]
    stamp: VectorStamp | OrderingStamp = time_known
    if ordering:
        row = VectorStamp({name: time_known[name] - 1 for name in others})
        stamp = OrderingStamp(sender, {me: 1}, time_known, {"an observer".ljust(16): row})
    causality.request_in("seed", written(f"{sender}:1000", stamp.to_text(limit=LIMIT)), limit=LIMIT)
    assert causality.figures().received == 1
    return causality


def news_of(causality: Causality, size: int) -> Callable[[], object]:
    """Ten others call, and each has made an event since."""
    others = names(size)[2:12]
    counts = itertools.count(1_000_000)

    def hear() -> None:
        count = next(counts)
        stamp = VectorStamp(dict.fromkeys(others, count))
        causality.request_in("news", written(f"{others[0]}:{count}", stamp.to_text(limit=LIMIT)), limit=LIMIT)

    return hear


async def echo(scope: Any, receive: Any, send: Any) -> None:
    part = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": part.get("body", b"")})
    del scope


async def floor_echo(scope: Any, receive: Any, send: Any) -> None:
    """A middleware that does nothing but carry."""

    async def carrying(part: Any) -> None:
        if part["type"] == "http.response.start":
            part = {**part, "headers": [*part["headers"], (b"beforehand-floor", CARRIED.encode())]}
        await send(part)

    await echo(scope, receive, carrying)


class _FloorTransport(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["beforehand-floor"] = CARRIED
        return super().handle_request(request)


class _ByPath:
    """One server for all variants: the path says which."""

    def __init__(self) -> None:
        self._apps: dict[str, Any] = {path_of(PLAIN, 0): echo, path_of(FLOOR, 0): floor_echo}
        for kind, size in VARIANTS:
            self._apps[path_of(kind, size)] = CausalMiddleware(echo, prepared(0, kind, size), limit=LIMIT)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._apps[scope["path"]](scope, receive, send)


def path_of(kind: str, size: int) -> str:
    return f"/{kind.replace(' ', '-').replace(',', '')}-{size}"


def serve_http(told: Connection) -> None:
    config = uvicorn.Config(
        _ByPath(), port=0, http="h11", h11_max_incomplete_event_size=1 << 20, log_level="critical", lifespan="off"
    )
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    told.send(server.servers[0].sockets[0].getsockname()[1])
    told.recv()


class _FloorClient(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        outcome = continuation(client_call_details._replace(metadata=(("beforehand-floor", CARRIED),)), request)
        outcome.trailing_metadata()
        return outcome


class _FloorServer(grpc.ServerInterceptor):  # type: ignore[misc]
    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        return continuation(handler_call_details)


def _floor_do(request: bytes, context: grpc.ServicerContext) -> bytes:
    context.invocation_metadata()
    context.set_trailing_metadata((("beforehand-floor", CARRIED),))
    return request


def _floor_call(do: grpc.UnaryUnaryMultiCallable) -> None:
    do.with_call(b"7", metadata=(("beforehand-floor", CARRIED),))[1].trailing_metadata()


def serve_grpc(told: Connection) -> None:
    options = [("grpc.max_metadata_size", 1 << 20), ("grpc.absolute_max_metadata_size", 1 << 20)]
    ports: dict[Variant, int] = {}
    servers = []
    for kind, size in ((PLAIN, 0), (FLOOR, 0), (FLOOR_INTERCEPTED, 0), *GRPC_VARIANTS):
        interceptors: list[grpc.ServerInterceptor] = []
        if kind in (FLOOR, FLOOR_INTERCEPTED):  # A server has no other way than an interceptor.
            interceptors = [_FloorServer()]
        elif kind != PLAIN:
            interceptors = [CausalServerInterceptor(prepared(0, kind, size), limit=LIMIT)]
        server = grpc.server(ThreadPoolExecutor(2), interceptors=interceptors, options=options)
        do = _floor_do if kind in (FLOOR, FLOOR_INTERCEPTED) else _grpc_echo
        handler = grpc.unary_unary_rpc_method_handler(do)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", {"do": handler}),))
        ports[kind, size] = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
    told.send(ports)
    told.recv()


def _grpc_echo(request: bytes, _: grpc.ServicerContext) -> bytes:
    return request


@contextmanager
def other_process(target: Callable[[Connection], None]) -> Iterator[Any]:
    """What the server process says of its ports."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(there,))
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("end")
        process.join(30)


@contextmanager
def http_calls() -> Iterator[dict[Variant, Timed]]:
    with ExitStack() as stack:
        port = stack.enter_context(other_process(serve_http))
        calls: dict[Variant, Timed] = {}
        for kind, size in ((PLAIN, 0), (FLOOR, 0), *VARIANTS):
            transport: httpx.BaseTransport = _FloorTransport() if kind == FLOOR else httpx.HTTPTransport()
            before: Callable[[], object] | None = None
            if kind not in (PLAIN, FLOOR):
                causality = prepared(1, kind, size)
                transport = CausalTransport(causality, transport, peer=partial(_named, names(size)[0]), limit=LIMIT)
                before = news_of(causality, size) if kind == NEWS else None
            client = stack.enter_context(httpx.Client(transport=transport))
            url = f"http://127.0.0.1:{port}{path_of(kind, size)}"
            calls[kind, size] = Timed(partial(_http_echo, client, url), before)
        yield calls


def _named(name: str, _: object) -> str:
    return name


def _http_echo(client: httpx.Client, url: str) -> None:
    if client.post(url, content=b"7").content != b"7":
        raise RuntimeError("the echo is wrong")


@contextmanager
def grpc_calls() -> Iterator[dict[Variant, Timed]]:
    options = [("grpc.max_metadata_size", 1 << 20), ("grpc.absolute_max_metadata_size", 1 << 20)]
    with ExitStack() as stack:
        ports: Mapping[Variant, int] = stack.enter_context(other_process(serve_grpc))
        calls: dict[Variant, Timed] = {}
        for (kind, size), port in ports.items():
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}", options=options))
            before: Callable[[], object] | None = None
            if kind == FLOOR_INTERCEPTED:
                channel = grpc.intercept_channel(channel, _FloorClient())
            elif kind == INTERCEPTED:
                interceptor = CausalClientInterceptor(prepared(1, kind, size), peer=names(size)[0], limit=LIMIT)
                channel = grpc.intercept_channel(channel, interceptor)
            elif kind not in (PLAIN, FLOOR):
                causality = prepared(1, kind, size)
                channel = causal_channel(channel, causality, peer=names(size)[0], limit=LIMIT)
                before = news_of(causality, size) if kind == NEWS else None
            do = channel.unary_unary("/echo/do")
            calls[kind, size] = Timed(partial(_floor_call, do) if kind == FLOOR else partial(do, b"7"), before)
        yield calls


def measured(calls: Mapping[Variant, Timed], runs: int, number: int) -> dict[Variant, list[tuple[float, float]]]:
    """Per variant and run: milliseconds of a round trip, and of CPU of the caller."""
    found: dict[Variant, list[tuple[float, float]]] = {variant: [] for variant in calls}
    for call, before in calls.values():
        for _ in range(5):
            if before is not None:
                before()
            call()
    for _ in range(runs):
        for variant, (call, before) in calls.items():
            wall, cpu = _run(call, number) if before is None else _run_after(call, before, number)
            found[variant].append((wall / number * 1000, cpu / number * 1000))
    return found


def _run(call: Callable[[], object], number: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(number):
        call()
    return time.perf_counter() - wall, time.process_time() - cpu


def _run_after(call: Callable[[], object], before: Callable[[], object], number: int) -> tuple[float, float]:
    walls = cpus = 0.0
    for _ in range(number):
        before()
        wall, cpu = _run(call, 1)
        walls, cpus = walls + wall, cpus + cpu
    return walls, cpus


def report(runs: int, number: int) -> Report:
    sections = []
    for carrier, opened in (("HTTP", http_calls), ("gRPC", grpc_calls)):
        with opened() as calls:
            figures = measured(calls, runs, number)
        rows = []
        for (kind, size), times in figures.items():
            cells = []
            for at in (0, 1):
                ratios = [run[at] / base[at] for run, base in zip(times, figures[PLAIN, 0], strict=True)]
                cells += [Figure.of((run[at] for run in times), digits=2), Figure.of(ratios, digits=2)]
            rows.append(Row((kind, f"{size:,}" if size else ""), tuple(cells)))
        columns = ("variant", "entries", "round trip, ms", "ratio", "caller's CPU, ms", "ratio of CPU")
        sections.append(Section(carrier, "", Table(carrier, columns, tuple(rows), median_of(runs, "All in turns."))))
    return report_of(
        "rpc",
        [*sections, beside_the_paper()],
        packages=("httpx", "uvicorn", "grpcio"),
        about=f"Caller and server are two processes on one machine; {number} calls in a run. An echo, as in Berry "
        "1995, 4.4; no reporter; HTTP by h11. *Ratio* is to the run without stamps in the same round. Aims: at most "
        "1.10 at 2 entries and 1.5 at 1,000. *Floor*: what the carrier takes to bring 64 characters there and back "
        "by the same hooks, with nothing done in them: the least that anything which carries something can cost in "
        "Python. *Ten entries new*: the caller hears of ten other processes before each call. *Full*: with "
        "`Policies(differences=False)`; all others send differences. gRPC: `causal_channel`, except where it says "
        "interceptor.",
    )


def beside_the_paper() -> Section:
    paper = (("no timestamps", 3.8, 2.3), ("timestamps", 4.9, 3.1), ("ordering", 5.4, 3.2))
    rows = tuple(
        Row(
            (name,),
            (Figure(wall, 1), Figure.of([wall / 3.8], digits=2), Figure(cpu, 1), Figure.of([cpu / 2.3], digits=2)),
        )
        for name, wall, cpu in paper
    )
    return Section(
        "Beside the paper",
        "Table 1 of Berry 1995, at 2 entries, two workstations.",
        Table("paper", ("variant", "round trip, ms", "ratio", "CPU, ms", "ratio of CPU"), rows, "As printed there."),
        "Figures 6 and 7 are curves over the number of entries. The text that we have of the paper does not hold "
        "them: what can be compared at 10, 100 and 1,000 is its words, growth that is almost linear between 10 and "
        "100 entries and steeper beyond.",
    )


def main() -> int:
    rest, to = target(sys.argv[1:])
    return deliver(report(int(rest[0]) if rest else RUNS, int(rest[1]) if len(rest) > 1 else CALLS), to)


if __name__ == "__main__":
    sys.exit(main())
