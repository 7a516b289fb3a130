"""Webhooks, posted to a real server on this machine: signed, in order, until taken, never where they may not."""

from __future__ import annotations

import hmac
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from service_stores import Service, events, opened
from webhook_receivers import receiving

from beforehand.errors import InputError
from beforehand.service.subscriptions import (
    Deliverer,
    DeliverySettings,
    Interest,
    Subscription,
    Subscriptions,
    checked_addresses,
    parse_target,
)
from beforehand.service.subscriptions.addresses import RESOLVING_MAX, is_public
from beforehand.service.subscriptions.posting import PostError, post


@contextmanager
def delivering(service: Service, **settings: Any) -> Iterator[Subscriptions]:
    subscriptions = Subscriptions(service.store)
    given = {"allow_private": True, "first_wait": 0.01, "longest_wait": 0.05, "look_every": 0.02, **settings}
    deliverer = Deliverer(service.store, subscriptions, settings=DeliverySettings(**given))
    deliverer.start()
    try:
        yield subscriptions
    finally:
        deliverer.close()


def until(subscriptions: Subscriptions, identity: str, check: str) -> Subscription:
    """The subscription, once a field of it says something."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = subscriptions.get(identity)
        assert found is not None
        if getattr(found, check):
            return found
        time.sleep(0.01)
    raise AssertionError(f"{check} stays empty")


def test_a_notice_is_posted_once_and_signed(tmp_path: Path) -> None:
    with opened(tmp_path) as service, receiving() as receiver, delivering(service) as subscriptions:
        made = subscriptions.add(Interest(where="name = failed"), url=receiver.url)
        service.ingest.report(events("a1 !m", "b1 ?m failed", "c1"))
        (post,) = receiver.wait(1)
        assert made.secret is not None
        signed = f"{post.headers['Beforehand-Timestamp']}.".encode() + post.body
        expected = hmac.new(made.secret.encode(), signed, sha256).hexdigest()
        assert post.headers["Beforehand-Signature"] == f"v1={expected}"
        assert abs(int(post.headers["Beforehand-Timestamp"]) - time.time()) < 60
        assert post.headers["Beforehand-Subscription"] == made.id == post.json["subscription"]
        assert post.headers["Beforehand-Cursor"] == str(post.json["cursor"])
        assert post.path == "/hook?x=1"
        assert post.json["event"]["id"] == "b:1"
        assert [one["id"] for one in post.json["events"]] == ["a:1"]
        assert until(subscriptions, made.id, "sent").cursor >= post.json["cursor"]
    assert len(receiver.received) == 1


def test_a_receiver_that_fails_gets_the_same_notice_again_and_the_next_ones_after_it(tmp_path: Path) -> None:
    with opened(tmp_path) as service, receiving() as receiver, delivering(service) as subscriptions:
        receiver.answer = lambda n, _: 500 if n < 3 else 200
        made = subscriptions.add(Interest(past=0), url=receiver.url)
        service.ingest.report(events("a1", "a2"))
        posts = receiver.wait(5)
        assert [post.json["event"]["id"] for post in posts] == ["a:1"] * 4 + ["a:2"]
        assert len({post.headers["Beforehand-Cursor"] for post in posts[:4]}) == 1
        assert until(subscriptions, made.id, "sent").error is None


def test_a_failure_is_told_and_the_cursor_stays(tmp_path: Path) -> None:
    with opened(tmp_path) as service, receiving() as receiver, delivering(service) as subscriptions:
        receiver.answer = lambda _n, _handler: 503
        made = subscriptions.add(Interest(), url=receiver.url)
        service.ingest.report(events("a1"))
        found = until(subscriptions, made.id, "error")
        assert found.error == f"127.0.0.1:{receiver.port} answered 503"
        assert (found.cursor, found.sent, found.stopped) == (0, 0, False)


def test_redirects_are_not_followed(tmp_path: Path) -> None:
    with (
        opened(tmp_path) as service,
        receiving() as elsewhere,
        receiving() as receiver,
        delivering(service) as subscriptions,
    ):

        def redirect(_: int, handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(307)
            handler.send_header("Location", elsewhere.url)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        receiver.answer = redirect
        made = subscriptions.add(Interest(), url=receiver.url)
        service.ingest.report(events("a1"))
        assert "redirects are not followed" in str(until(subscriptions, made.id, "error").error)
        receiver.wait(3)
        assert elsewhere.received == []


def test_a_receiver_that_is_gone_is_asked_no_more(tmp_path: Path) -> None:
    with opened(tmp_path) as service, receiving() as receiver, delivering(service) as subscriptions:
        receiver.answer = lambda _n, _handler: 410
        other = subscriptions.add(Interest(past=0), url=receiver.url)
        service.ingest.report(events("a1"))
        assert until(subscriptions, other.id, "stopped").failures == 1
        service.ingest.report(events("a2"))
        with receiving() as second:
            made = subscriptions.add(Interest(past=0), url=second.url, after=0)
            second.wait(2)
            until(subscriptions, made.id, "sent")
        assert len(receiver.received) == 1


def test_a_slow_receiver_is_given_up_and_delays_nobody_else(tmp_path: Path) -> None:
    with opened(tmp_path) as service, receiving() as slow, receiving() as quick:
        done = threading.Event()

        def drip(_: int, handler: BaseHTTPRequestHandler) -> None:
            while not done.wait(0.05):
                try:
                    handler.wfile.write(b"H")
                except OSError:
                    return

        slow.answer = drip
        with delivering(service, seconds_max=0.5) as subscriptions:
            stuck = subscriptions.add(Interest(), url=slow.url)
            subscriptions.add(Interest(past=0), url=quick.url)
            service.ingest.report(events("a1"))
            slow.wait(1)
            service.ingest.report(events("a2", "a3"))
            quick.wait(3)
            assert "no answer" in str(until(subscriptions, stuck.id, "error").error)
            done.set()


def test_an_answer_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    with opened(tmp_path) as service, receiving() as receiver, delivering(service) as subscriptions:

        def endless(_: int, handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            try:
                for _ in range(100_000):
                    handler.wfile.write(b"x" * 65_536)
            except OSError:
                pass

        receiver.answer = endless
        made = subscriptions.add(Interest(), url=receiver.url)
        service.ingest.report(events("a1"))
        assert until(subscriptions, made.id, "sent").sent == 1


def test_an_answer_that_announces_more_than_a_number_can_count_is_a_failure_like_others(tmp_path: Path) -> None:
    with opened(tmp_path) as service, receiving() as receiver, delivering(service) as subscriptions:

        def enormous(_: int, handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"9" * 400 + b"\r\nx")

        receiver.answer = enormous
        made = subscriptions.add(Interest(), url=receiver.url)
        service.ingest.report(events("a1"))
        assert "no answer" in str(until(subscriptions, made.id, "error").error)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate")
def test_over_tls_too_an_answer_that_drips_is_cut_at_the_end_of_its_time(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    over = threading.Event()

    def serve() -> None:
        with suppress(OSError), listening.accept()[0] as line, server.wrap_socket(line, server_side=True) as secured:
            secured.recv(65_536)
            secured.sendall(b"HTTP/1.1 ")
            while not over.wait(0.05):
                secured.sendall(b"2")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        watch = threading.Timer(5, over.set)
        watch.start()
        begun = time.monotonic()
        with pytest.raises(PostError, match="no answer from localhost"):
            post(
                f"https://localhost:{listening.getsockname()[1]}/hook",
                b"{}",
                {},
                seconds_max=0.5,
                allow_private=True,
                context=ssl.create_default_context(cafile=certificate),
            )
        assert time.monotonic() - begun < 3
        over.set()
        watch.cancel()
        thread.join()


def test_a_webhook_goes_on_after_a_restart(tmp_path: Path) -> None:
    with receiving() as receiver:
        with opened(tmp_path) as service:
            subscriptions = Subscriptions(service.store)
            made = subscriptions.add(Interest(past=0), url=receiver.url)
            service.ingest.report(events("a1", "a2"))
        with opened(tmp_path) as service, delivering(service) as subscriptions:
            service.ingest.report(events("a3"))
            assert [post.json["event"]["id"] for post in receiver.wait(3)] == ["a:1", "a:2", "a:3"]
            until(subscriptions, made.id, "sent")


def test_private_targets_are_refused_unless_allowed(tmp_path: Path) -> None:
    with opened(tmp_path) as service, receiving() as receiver:
        with delivering(service, allow_private=False) as subscriptions:
            made = subscriptions.add(Interest(), url=receiver.url)
            named = subscriptions.add(Interest(), url=f"http://localhost:{receiver.port}/")
            service.ingest.report(events("a1"))
            for one in (made, named):
                assert "not on the public internet" in str(until(subscriptions, one.id, "error").error)
        assert receiver.received == []


def test_the_address_that_was_checked_is_the_one_that_is_called(tmp_path: Path, monkeypatch: Any) -> None:
    """DNS rebinding: the second time a name is resolved it points elsewhere."""
    resolve, asked = socket.getaddrinfo, []

    def rebound(host: str, *args: Any, **kwargs: Any) -> Any:
        if host != "hooks.example":
            return resolve(host, *args, **kwargs)
        asked.append(host)
        return resolve("93.184.215.14" if len(asked) == 1 else "127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    connected: list[tuple[str, int]] = []

    def refuse(address: tuple[str, int], **_: object) -> socket.socket:
        connected.append(address)
        raise OSError("not in a test")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with opened(tmp_path) as service, receiving() as receiver:
        service.ingest.report(events("a1"))
        subscriptions = Subscriptions(service.store)
        made = subscriptions.add(Interest(), url=f"http://hooks.example:{receiver.port}/", after=0)
        deliverer = Deliverer(service.store, subscriptions)
        assert not deliverer.deliver(made)
        assert connected == [("93.184.215.14", receiver.port)]
        assert not deliverer.deliver(made)
        assert connected == [("93.184.215.14", receiver.port)]  # The second one was refused before a connection.
        assert asked == ["hooks.example"] * 2


def test_a_name_server_that_does_not_answer_is_not_waited_for(monkeypatch: Any) -> None:
    answering = threading.Event()
    asked = threading.Semaphore(0)

    def silent(*_: Any, **__: Any) -> Any:
        asked.release()
        answering.wait()
        raise OSError("nobody")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    target = parse_target("https://hooks.example/")
    try:
        for _ in range(RESOLVING_MAX):
            with pytest.raises(InputError, match=r"'hooks\.example' is not resolved: no answer within 0\.01 s"):
                checked_addresses(target, allow_private=False, seconds_max=0.01)
        with pytest.raises(InputError, match=f"{RESOLVING_MAX} names wait for an answer already"):
            checked_addresses(target, allow_private=False, seconds_max=0.01)
    finally:
        answering.set()
        for _ in range(RESOLVING_MAX):
            asked.acquire()
    while any(thread.name == "beforehand-resolve" for thread in threading.enumerate()):
        pass
    with pytest.raises(InputError, match="cannot be resolved: nobody"):
        checked_addresses(target, allow_private=False)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "2002:7f00:1::",  # 6to4 of 127.0.0.1
        "64:ff9b::7f00:1",  # NAT64 of 127.0.0.1
    ],
)
def test_what_is_not_on_the_public_internet_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_what_is_on_the_public_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url", ["http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://127.1/", "http://[::1]/"]
)
def test_odd_spellings_of_this_machine_are_this_machine(url: str) -> None:
    with pytest.raises(InputError, match=r"public internet|cannot be resolved"):
        checked_addresses(parse_target(url), allow_private=False)
