"""Callers at once, from threads and tasks: what is recorded is what happened, over HTTP and both kinds of gRPC.

The programs note what each of their lines (a thread, a task, the handling of a call) does, one step after the other.
Between lines of one process its clock decides: the order of the numbers that it gave. Which message belongs to which
is told by the calls' own names, so the truth knows neither stamps nor message ids.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager

import grpc
import httpx
import pytest
from fastapi import FastAPI, Request
from http_services import name_of, served
from plans import SERVICES, Plan, Recorder, Truth, random_plan, recorded_before

from beforehand.events import Event
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
)

# A caller and which line of it, for two share a clock; and whom it calls first.
LINES = dict(zip(("alice 1", "alice 2", "bob 1"), SERVICES, strict=True))
ROUNDS = 4
BOTH = pytest.mark.parametrize("ordering", [False, True], ids=["timestamps", "ordering"])


class Noted:
    """What every line did, noted by itself; and the processes, which record by themselves."""

    def __init__(self, *, ordering: bool) -> None:
        self._lines: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._recorder = Recorder()
        self._lock = threading.Lock()
        draw = random.Random(11)
        self.plans = {line: list(_plans(draw, f"{line[0]}{line[-1]}", to)) for line, to in LINES.items()}
        policies = Policies(unstamped=Unstamped.REFUSE, deadline=20)
        self.processes = {
            name: Causality(
                name,
                reporter=self._recorder.reporter(name, stamps=not ordering),
                policies=policies,
                ordering=ordering,
            )
            for name in (*SERVICES, "alice", "bob")
        }
        # The first call of each line is not answered before all of them are being handled.
        self._first = {plans[0]["call"] for plans in self.plans.values()}
        self._together = threading.Barrier(len(LINES))

    def note(self, process: str, line: str, kind: str, plan: Plan) -> None:
        with self._lock:
            self._lines.setdefault((process, line), []).append((kind, str(plan["call"])))

    def meet(self, plan: Plan) -> None:
        if plan["call"] in self._first:
            self._together.wait(30)

    def check(self) -> None:
        """What was recorded equals the truth."""
        events = self._recorder.events()
        truth = self._truth(events)
        happened = truth.happened_before()
        assert recorded_before(events) == happened
        # Others were under way meanwhile: of the first calls, each was handled beside the others.
        serve = {
            call: (process, at)
            for process, steps in truth.steps.items()
            for at, (kind, call) in enumerate(steps, start=1)
            if kind == "serve" and call in self._first
        }
        apart = [(a, b) for a in serve.values() for b in serve.values() if a[0] != b[0]]
        assert apart
        assert all(pair not in happened for pair in apart)

    def _truth(self, events: Iterable[Event]) -> Truth:
        """The steps of each process in the order of its clock, which keeps the order of each line."""
        truth = Truth()
        for event in sorted(events, key=lambda event: (event.process, event.index)):
            kind, _, interface = event.name.partition(" ")
            truth.note(event.process, kind, interface.rpartition("/")[2])
        for (process, _), steps in self._lines.items():
            places = [truth.steps[process].index(step) for step in steps]
            assert places == sorted(places)
        noted = Counter((process, step) for (process, _), steps in self._lines.items() for step in steps)
        assert noted == Counter((process, step) for process, steps in truth.steps.items() for step in steps)
        return truth


def _plans(draw: random.Random, name: str, first: str) -> Iterator[Plan]:
    below = random_plan(draw, f"{name}-0.0", 1, away_from=first)
    yield {"call": f"{name}-0", "to": first, "then": [below]}
    for at in range(1, ROUNDS):
        yield random_plan(draw, f"{name}-{at}", 2)


def run_lines(noted: Noted, carry_out: Callable[[str, str, Plan], None]) -> None:
    """Every line in a thread of its own."""

    def run(line: str) -> None:
        for plan in noted.plans[line]:
            carry_out(line.split()[0], line, plan)

    with ThreadPoolExecutor(len(LINES)) as threads:
        for done in [threads.submit(run, line) for line in LINES]:
            done.result(60)


# HTTP.


@contextmanager
def http_service(noted: Noted, name: str, addresses: dict[str, str]) -> Iterator[None]:
    api = FastAPI()

    @api.post("/do/{call}")
    async def do(call: str, request: Request) -> str:
        plan: Plan = await request.json()
        noted.note(name, call, "serve", plan)
        await asyncio.to_thread(noted.meet, plan)
        transport = AsyncCausalTransport(noted.processes[name], peer=lambda url: name_of(addresses, url))
        async with httpx.AsyncClient(transport=transport, timeout=30) as client:
            for step in plan["then"]:  # type: ignore[attr-defined]
                noted.note(name, call, "call", step)
                (await client.post(f"{addresses[step['to']]}/do/{step['call']}", json=step)).raise_for_status()
                noted.note(name, call, "answered", step)
        noted.note(name, call, "answer", plan)
        return "done"

    with served(CausalMiddleware(api, noted.processes[name])) as address:
        addresses[name] = address
        yield


@BOTH
def test_over_http_callers_in_threads_record_exactly_what_happened(ordering: bool) -> None:
    noted, addresses = Noted(ordering=ordering), dict[str, str]()
    with ExitStack() as stack:
        for name in SERVICES:
            stack.enter_context(http_service(noted, name, addresses))
        clients = {
            name: stack.enter_context(
                httpx.Client(
                    transport=CausalTransport(noted.processes[name], peer=lambda url: name_of(addresses, url)),
                    timeout=30,
                )
            )
            for name in ("alice", "bob")
        }

        def carry_out(name: str, line: str, plan: Plan) -> None:
            noted.note(name, line, "call", plan)
            clients[name].post(f"{addresses[str(plan['to'])]}/do/{plan['call']}", json=plan).raise_for_status()
            noted.note(name, line, "answered", plan)

        run_lines(noted, carry_out)

    noted.check()


# gRPC.


class AnyMethod(grpc.GenericRpcHandler):
    """One behaviour for all methods: the call's name is the method's."""

    def __init__(self, behaviour: Callable[..., object]) -> None:
        self._handler = grpc.unary_unary_rpc_method_handler(behaviour)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return self._handler


@BOTH
def test_over_grpc_callers_in_threads_record_exactly_what_happened(ordering: bool) -> None:
    noted, addresses = Noted(ordering=ordering), dict[str, str]()
    with ExitStack() as stack:
        channels: dict[tuple[str, str], grpc.Channel] = {}

        def carry_out(name: str, line: str, plan: Plan) -> None:
            noted.note(name, line, "call", plan)
            call = channels[name, str(plan["to"])].unary_unary(f"/shop/{plan['call']}")
            assert call(json.dumps(plan).encode(), timeout=30) == b"done"
            noted.note(name, line, "answered", plan)

        def handling(name: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
            def do(request: bytes, context: grpc.ServicerContext) -> bytes:
                plan: Plan = json.loads(request)
                noted.note(name, str(plan["call"]), "serve", plan)
                noted.meet(plan)
                for step in plan["then"]:  # type: ignore[attr-defined]
                    carry_out(name, str(plan["call"]), step)
                noted.note(name, str(plan["call"]), "answer", plan)
                return b"done"

            return do

        for name in SERVICES:
            server = grpc.server(
                ThreadPoolExecutor(16), interceptors=[CausalServerInterceptor(noted.processes[name])]
            )
            server.add_generic_rpc_handlers((AnyMethod(handling(name)),))
            addresses[name] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            server.start()
            stack.callback(lambda server=server: server.stop(None).wait(10))
        for name, causality in noted.processes.items():
            for to, address in addresses.items():
                channel = stack.enter_context(grpc.insecure_channel(address))
                channels[name, to] = grpc.intercept_channel(channel, CausalClientInterceptor(causality, peer=to))
        run_lines(noted, carry_out)

    noted.check()


@BOTH
def test_over_grpc_with_asyncio_callers_in_tasks_record_exactly_what_happened(ordering: bool) -> None:
    noted = Noted(ordering=ordering)

    asyncio.run(_with_asyncio(noted))

    noted.check()


async def _with_asyncio(noted: Noted) -> None:
    addresses: dict[str, str] = {}
    channels: dict[tuple[str, str], grpc.aio.Channel] = {}

    async def carry_out(name: str, line: str, plan: Plan) -> None:
        noted.note(name, line, "call", plan)
        call = channels[name, str(plan["to"])].unary_unary(f"/shop/{plan['call']}")
        assert await call(json.dumps(plan).encode(), timeout=30) == b"done"
        noted.note(name, line, "answered", plan)

    def handling(name: str) -> Callable[..., object]:
        async def do(request: bytes, context: object) -> bytes:
            plan: Plan = json.loads(request)
            noted.note(name, str(plan["call"]), "serve", plan)
            await asyncio.to_thread(noted.meet, plan)
            for step in plan["then"]:  # type: ignore[attr-defined]
                await carry_out(name, str(plan["call"]), step)
            noted.note(name, str(plan["call"]), "answer", plan)
            return b"done"

        return do

    async def run(line: str) -> None:
        for plan in noted.plans[line]:
            await carry_out(line.split()[0], line, plan)

    async with AsyncExitStack() as stack:
        for name in SERVICES:
            server = grpc.aio.server(interceptors=[AioCausalServerInterceptor(noted.processes[name])])
            server.add_generic_rpc_handlers((AnyMethod(handling(name)),))
            addresses[name] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            await server.start()
            stack.push_async_callback(server.stop, None)
        for name, causality in noted.processes.items():
            for to, address in addresses.items():
                interceptors = aio_client_interceptors(causality, peer=lambda method, to=to: to)
                channels[name, to] = await stack.enter_async_context(
                    grpc.aio.insecure_channel(address, interceptors=interceptors)
                )
        await asyncio.gather(*map(run, LINES))
