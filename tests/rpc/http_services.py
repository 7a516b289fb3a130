"""Servers of HTTP on the loopback, in threads; and the three services that carry out plans."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request
from plans import Plan, Truth

from beforehand.rpc import AsyncCausalTransport, Causality, CausalMiddleware


@contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of a real server."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def plan_service(
    causality: Causality, truth: Truth, addresses: dict[str, str], *, tasks: bool = False
) -> Iterator[str]:
    """A FastAPI application that carries out what a plan says, through httpx."""
    api = FastAPI()
    name = causality.process

    @api.post("/do")
    async def do(request: Request) -> dict[str, str]:
        plan: Plan = await request.json()
        truth.note(name, "serve", str(plan["call"]))
        transport = AsyncCausalTransport(causality, peer=lambda url: name_of(addresses, url))
        async with httpx.AsyncClient(transport=transport) as client:
            for step in plan["then"]:  # type: ignore[attr-defined]
                truth.note(name, "call", step["call"])
                (await client.post(f"{addresses[step['to']]}/do", json=step)).raise_for_status()
                truth.note(name, "answered", step["call"])
        truth.note(name, "answer", str(plan["call"]))
        return {"done": str(plan["call"])}

    with served(CausalMiddleware(api, causality, tasks=tasks)) as address:
        addresses[name] = address
        yield address


def name_of(addresses: dict[str, str], url: httpx.URL) -> str:
    return next((name for name, address in addresses.items() if httpx.URL(address).port == url.port), "")
