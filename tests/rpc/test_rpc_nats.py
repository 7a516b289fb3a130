"""NATS headers, over a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from beforehand.rpc import (
    Causality,
    Policies,
    Unstamped,
    message_headers,
    message_received,
    reply_headers,
    reply_received,
    request_headers,
)
from beforehand.runtime import EmbeddedBroker

STRICT = Policies(unstamped=Unstamped.REFUSE)


def test_requests_replies_and_messages_carry_stamps_over_a_real_broker(tmp_path: Path) -> None:
    import nats

    async def run(url: str) -> tuple[Causality, Causality]:
        client, server = Causality("client", policies=STRICT), Causality("server", policies=STRICT)
        caller, callee = await nats.connect(url), await nats.connect(url)
        heard = asyncio.Event()

        async def answer(message):
            arrival = message_received(server, message.subject, message.headers)
            await callee.publish(message.reply, b"yes", headers=reply_headers(server, arrival))

        async def hear(message):
            message_received(server, message.subject, message.headers)
            heard.set()

        await callee.subscribe("ask", cb=answer)
        await callee.subscribe("tell", cb=hear)
        await callee.flush()
        call, headers = request_headers(client, "ask", {"App": "kept"})
        reply = await caller.request("ask", b"?", headers=headers, timeout=10)
        reply_received(client, call, reply.headers)
        await caller.publish("tell", b"!", headers=message_headers(client, "tell"))
        await asyncio.wait_for(heard.wait(), 10)
        await caller.close()
        await callee.close()
        return client, server

    with EmbeddedBroker(tmp_path / "broker") as broker:
        client, server = asyncio.run(run(broker.url))

    assert client.stamp().to_dict() == {"client": 3, "server": 2}
    assert server.stamp().to_dict() == {"client": 3, "server": 3}


def test_headers_are_found_whatever_their_case() -> None:
    client, server = Causality("client"), Causality("server", policies=STRICT)
    headers = {key.title(): value for key, value in message_headers(client, "tell").items()}

    assert message_received(server, "tell", headers).message == "client:1"
