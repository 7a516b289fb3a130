"""Addresses, connections, streams and the embedded broker: what cannot be had is said in one line."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beforehand.errors import BrokerError, InputError
from beforehand.runtime import EmbeddedBroker, StreamAddress, StreamReader, connect, ensure_stream
from beforehand.runtime.nats import covers, find_stream
from free_ports import free_port

PROGRAM = Path(sys.executable).parent / "nats-server"


@pytest.mark.parametrize(
    ("text", "server", "stream", "subject", "shown"),
    [
        ("nats://h:1/S", "nats://h:1", "S", None, "nats://h:1/S"),
        ("nats://h/S", "nats://h:4222", "S", None, "nats://h:4222/S"),
        ("nats://u:pw@h:1/S?subject=a.*", "nats://u:pw@h:1", "S", "a.*", "nats://h:1/S"),
        ("tls://token@h:1/S", "tls://token@h:1", "S", None, "tls://h:1/S"),
        ("nats://[::1]:1/S", "nats://[::1]:1", "S", None, "nats://[::1]:1/S"),
        ("nats://u:p%40ss@h:1/S", "nats://u:p%40ss@h:1", "S", None, "nats://h:1/S"),
    ],
)
def test_an_address_is_taken_apart_and_shown_without_secrets(
    text: str, server: str, stream: str, subject: str | None, shown: str
) -> None:
    address = StreamAddress.parse(text)

    assert (address.server, address.stream, address.subject, address.shown) == (server, stream, subject, shown)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h:1/S",
        "http://h/S",
        "nats:///S",
        "nats://h",
        "nats://h/",
        "nats://h/a.b",
        "nats://h/a b",
        "nats://h/a/b",
        "nats://h:port/S",
        "nats://h:99999/S",
        "nats://h/S?topic=x",
        "nats://h/S?subject=",
        "nats://h/S?subject=a%20b",
        "nats://h/S#x",
        "nats://u:hunter2@h/",
        "nats://[::1/S",
    ],
)
def test_what_is_no_address_is_refused_in_one_line_without_secrets(text: str) -> None:
    with pytest.raises(InputError) as refused:
        StreamAddress.parse(text)

    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "subject", "does"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.*", "a", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("a.b", "a.*", False),
        ("a.*", "a.>", False),
        ("a.>", "a.>", True),
        ("a.b.c", "a.b", False),
    ],
)
def test_a_pattern_covers_what_it_matches(pattern: str, subject: str, does: bool) -> None:
    assert covers(pattern, subject) is does


def test_a_broker_that_is_not_there_is_named_with_what_to_do() -> None:
    port = free_port()
    with pytest.raises(BrokerError, match=f"nats://127.0.0.1:{port}: nothing listens there: start"):
        asyncio.run(connect(f"nats://me:hunter2@127.0.0.1:{port}"))


def test_something_that_is_no_broker_is_not_waited_for() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerError) as refused:
            await connect(f"nats://127.0.0.1:{port}", timeout_s=1)
        assert "\n" not in str(refused.value)
        server.close()

    asyncio.run(run())


def test_a_silent_server_is_given_up_in_time() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def run() -> None:
        silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        begun = time.monotonic()
        with pytest.raises(BrokerError, match="no answer"):
            await connect(f"nats://127.0.0.1:{port}", timeout_s=0.3)
        assert time.monotonic() - begun < 20
        silent.close()

    asyncio.run(run())


def run_server(tmp_path: Path, *more: str) -> tuple[subprocess.Popen[bytes], str]:
    port = free_port()
    command = [str(PROGRAM), "-a", "127.0.0.1", "-p", str(port), *more]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 0.1).close()
            return process, f"127.0.0.1:{port}"
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_broker_without_jetstream_is_told(tmp_path: Path) -> None:
    process, place = run_server(tmp_path)
    try:
        with pytest.raises(BrokerError, match="no JetStream: start it with -js"):
            asyncio.run(connect(f"nats://{place}"))
    finally:
        process.terminate()
        process.wait()


def test_a_wrong_password_is_told_and_not_shown(tmp_path: Path) -> None:
    process, place = run_server(tmp_path, "-js", "-sd", str(tmp_path), "--user", "me", "--pass", "right")

    async def let_in() -> bool:
        connection = await connect(f"nats://me:right@{place}")
        connected = connection.is_connected
        await connection.close()
        return connected

    try:
        assert asyncio.run(let_in())
        for known in ("", "me:hunter2@"):
            with pytest.raises(BrokerError, match="does not let us in") as refused:
                asyncio.run(connect(f"nats://{known}{place}"))
            assert "hunter2" not in str(refused.value)
    finally:
        process.terminate()
        process.wait()


def test_credentials_and_certificates_that_are_not_there_are_named(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such credentials file"):
        asyncio.run(connect(broker.url, credentials=tmp_path / "none.creds"))
    with pytest.raises(InputError, match="not a certificate"):
        asyncio.run(connect(broker.url, tls_ca=tmp_path / "none.pem"))


def test_a_stream_is_made_once_and_must_take_the_subjects(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await connect(broker.url)
        jetstream = connection.jetstream()
        address = StreamAddress.parse(f"{broker.url}/ENSURED")
        assert await find_stream(jetstream, address) is None
        made = await ensure_stream(jetstream, address, ["ensured.>"])
        again = await ensure_stream(jetstream, address, ["ensured.a.*"])
        assert made.config.name == again.config.name
        with pytest.raises(BrokerError, match="does not take the subject 'other'"):
            await ensure_stream(jetstream, address, ["other"])
        with pytest.raises(BrokerError, match="cannot be made"):
            await ensure_stream(jetstream, StreamAddress.parse(f"{broker.url}/OVERLAP"), ["ensured.>"])
        await connection.close()

    asyncio.run(run())


def test_a_reader_gives_all_in_order_over_batches_large_messages_and_lost_consumers(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await connect(broker.url)
        jetstream = connection.jetstream()
        address = StreamAddress.parse(f"{broker.url}/READ?subject=read.a")
        await ensure_stream(jetstream, address, ["read.*"])
        for number in range(40):
            size = 900_000 if number % 2 else 3
            await jetstream.publish("read.a", str(number).encode().ljust(size))
            await jetstream.publish("read.b", b"not asked for")
        reader = StreamReader(connection, address, batch_max=30)
        await reader.open()
        got: list[int] = []
        while True:
            fetched = await reader.fetch()
            got += [int(message.payload) for message in fetched.messages]
            if fetched.drained:
                break
            consumers = await jetstream.consumers_info("READ")
            await jetstream.delete_consumer("READ", consumers[0].name)  # The broker may forget us at any time.
        assert got == list(range(40))
        assert reader.next_sequence == 80
        await jetstream.publish("read.a", b"40")
        assert [message.payload for message in (await reader.wait(5)).messages] == [b"40"]
        assert (await reader.wait(0.05)).messages == []
        await reader.close()
        await connection.close()

    asyncio.run(run())


def test_what_the_reader_was_given_and_did_not_get_it_reads_again(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await connect(broker.url)
        jetstream = connection.jetstream()
        address = StreamAddress.parse(f"{broker.url}/GAP")
        await ensure_stream(jetstream, address, ["gap"])
        for number in range(10):
            await jetstream.publish("gap", str(number).encode())
        reader = StreamReader(connection, address, batch_max=4)
        await reader.open()
        [consumer] = await jetstream.consumers_info("GAP")
        inbox = await connection.subscribe("elsewhere")
        await connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.GAP.{consumer.name}", b'{"batch":1}', reply="elsewhere")
        assert (await inbox.next_msg(5)).data == b"0"  # The broker will not give it a second time.
        got: list[int] = []
        for _ in range(10):
            got += [int(message.payload) for message in (await reader.fetch()).messages]
        assert got == list(range(10))
        await reader.close()
        await connection.close()

    asyncio.run(run())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except OSError:
        return False


def test_the_broker_ends_with_its_context_and_leaves_nothing(tmp_path: Path) -> None:
    with EmbeddedBroker() as running:
        pid = running.pid
        assert pid is not None
        assert alive(pid)
    assert running.pid is None
    assert not alive(pid)
    with pytest.raises(BrokerError, match="nothing listens"):
        asyncio.run(connect(running.url))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_broker_dies_with_its_parent(number: signal.Signals) -> None:
    code = (
        "import time; from beforehand.runtime import EmbeddedBroker; broker = EmbeddedBroker(); broker.start();"
        "print(broker.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    os.kill(parent.pid, number)
    parent.communicate()
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_folder_keeps_the_streams(tmp_path: Path) -> None:
    async def publish(url: str) -> int:
        connection = await connect(url)
        await ensure_stream(connection.jetstream(), StreamAddress.parse(f"{url}/KEPT"), ["kept"])
        ack = await connection.jetstream().publish("kept", b"")
        await connection.close()
        return ack.seq

    counts = []
    for _ in range(2):
        with EmbeddedBroker(tmp_path / "streams") as running:
            counts.append(asyncio.run(publish(running.url)))
    assert counts == [1, 2]


def test_a_port_that_is_taken_is_told(broker: EmbeddedBroker) -> None:
    port = int(broker.url.rpartition(":")[2])
    with pytest.raises(BrokerError, match="address already in use"), EmbeddedBroker(port=port):
        pass


def test_a_server_without_tls_gets_nothing_if_tls_was_asked_for(broker: EmbeddedBroker) -> None:
    got: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576}\r\n')
        await writer.drain()
        got.append(await reader.read(1000))
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerError, match="offers no TLS"):
            await connect(f"tls://bob:secret@127.0.0.1:{port}", timeout_s=3)
        server.close()
        await asyncio.sleep(0)
        with pytest.raises(BrokerError, match="offers no TLS"):
            await connect(broker.url.replace("nats://", "tls://"))

    asyncio.run(run())
    assert set(got) <= {b""}
