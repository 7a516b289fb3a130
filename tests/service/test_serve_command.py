"""`beforehand serve` and `beforehand token` as processes: starting, refusing to start, stopping."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from servers import Client, serving_process
from service_stores import events

from beforehand.cli import main
from beforehand.reporting import HttpTarget, Reporter
from beforehand.service import Store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the command in this process; its exit status, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["beforehand", *arguments])
        kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        status: object = 0
        try:
            main()
        except SystemExit as exit_:
            status = exit_.code
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        captured = capfd.readouterr()
        assert isinstance(status, int)
        return status, captured.out, captured.err

    return run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_starts_with_no_set_up_and_stops_at_a_signal(tmp_path: Path, number: int) -> None:
    with serving_process(tmp_path / "new.db") as (process, client):
        assert client.report(events("a1 !m", "b1 ?m"))["stored"] == 2
        process.send_signal(number)
        output, errors = process.communicate(timeout=20)

    assert process.returncode == 0
    assert (output, errors) == ("", "beforehand: stopped\n")
    with Store(tmp_path / "new.db") as store:  # It was closed: nobody holds it.
        assert store.cursor > 0


def test_a_second_service_of_one_store_is_refused_in_one_line(invoke: Run, tmp_path: Path) -> None:
    with serving_process(tmp_path / "shop.db") as (_, client):
        status, _, errors = invoke("serve", "--store", "shop.db", "--port", "0")

        assert client.get("/healthz").status == 200
    assert status == 2
    assert errors == "beforehand: another process writes to the store 'shop.db': stop it first\n"


def test_a_port_that_is_taken_is_said_in_one_line_and_no_store_is_made(invoke: Run, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, _, errors = invoke("serve", "--store", "shop.db", "--port", str(port))

    assert status == 2
    expected = f"127.0.0.1 port {port} is in use: stop what listens there, or choose another with --port"
    assert errors == f"beforehand: {expected}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("serve", "--port", "99999"), "99999"),
        (("serve", "--host", "no.such.host.invalid"), "no.such.host.invalid"),
        (("serve", "--host", "192.0.2.1", "--port", "0"), "192.0.2.1"),
        (("serve", "--store", "nowhere/shop.db", "--port", "0"), "nowhere/shop.db"),
        (("serve", "--store", ".", "--port", "0"), "name a file"),
        (("serve", "--store", "a.db", "--open", "b"), "give one of them"),
        (("serve", "--open", "nowhere", "--port", "0"), "nowhere"),
        (("serve", "--tls-cert", "c.pem", "--port", "0"), "go together"),
        (("serve", "--tls-cert", "c.pem", "--tls-key", "k.pem", "--port", "0"), "c.pem"),
        (
            ("serve", "--host", "0.0.0.0", "--port", "0"),
            "beforehand token add NAME --scope admin --store beforehand.db",
        ),
        (("serve", "--allow-host", "http://x/", "--port", "0"), "without scheme and port"),
        (("serve", "--allow-host", "x:80", "--port", "0"), "leave out the port"),
        (("serve", "--deadline", "-1"), "--deadline"),
        (("serve", "extra"), "extra"),
        (("token", "add", "me"), "--scope"),
        (("token", "add", "me", "--scope", "root"), "root"),
        (("token", "add", "", "--scope", "read"), "1 to 100"),
        (("token", "add", "me", "--scope", "read", "--store", "nowhere/x"), "nowhere"),
        (("token", "revoke", "x"), "no tokens"),
        (("token", "nothing"), "nothing"),
    ],
)
def test_a_wrong_command_line_gets_one_line_and_exit_2(invoke: Run, arguments: tuple[str, ...], says: str) -> None:
    status, output, errors = invoke(*arguments)

    assert (status, output) == (2, "")
    assert len(errors.splitlines()) == 1
    assert says in errors


def test_what_is_no_certificate_is_refused_in_one_line(invoke: Run, tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("no certificate")
    (tmp_path / "k.pem").write_text("no key")

    status, _, errors = invoke("serve", "--tls-cert", "c.pem", "--tls-key", "k.pem", "--port", "0")

    assert status == 2
    assert "in PEM" in errors
    assert len(errors.splitlines()) == 1


def test_tokens_are_made_listed_and_revoked_while_the_service_runs(invoke: Run, tmp_path: Path) -> None:
    made = json.loads(invoke("token", "add", "boss", "--scope", "admin", "--json")[1])
    with serving_process(tmp_path / "beforehand.db", "--host", "0.0.0.0") as (process, client):
        status, output, said = invoke("token", "add", "cart", "--scope", "read")
        assert status == 0
        text = output.strip()
        assert "not shown again" in said
        reader = Client(client.port, token=text)
        assert _soon(lambda: reader.get("/api/status").status) == 200
        listed = invoke("token", "list")[1]
        assert "cart" in listed
        assert "admin" in listed
        assert text.rpartition("_")[2] not in listed
        assert invoke("token", "revoke", text.split("_")[1])[0] == 0
        assert _soon(lambda: reader.get("/api/status").status, until=401) == 401
        admin = Client(client.port, token=made["token"])
        assert [entry["who"] for entry in admin.found("/api/audit", limit=2)["entries"]] == ["command", "command"]
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)

    assert errors.startswith("beforehand: warning: tokens travel without TLS")
    shown = json.loads(invoke("token", "list", "--json")[1])["tokens"]
    assert [token["revoked"] is None for token in shown] == [True, False]


def test_there_are_no_tokens_at_first_and_listing_makes_no_file(invoke: Run, tmp_path: Path) -> None:
    assert invoke("token", "list") == (0, "there are no tokens for beforehand.db\n", "")
    assert list(tmp_path.iterdir()) == []


def _soon(ask: object, until: int = 200) -> int:
    import time

    end = time.monotonic() + 15
    while True:
        found = ask()  # type: ignore[operator]
        if found == until or time.monotonic() > end:
            return int(found)
        time.sleep(0.05)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate")
def test_a_service_with_a_certificate_speaks_tls_and_nothing_else(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    with serving_process(tmp_path / "s.db", "--tls-cert", str(certificate), "--tls-key", str(key)) as (_, client):
        context = ssl.create_default_context(cafile=str(certificate))
        with Reporter(HttpTarget(f"https://127.0.0.1:{client.port}", context=context), process="cart") as reporter:
            reporter.event("opened")
            assert reporter.flush(20)
        connection = http.client.HTTPSConnection("127.0.0.1", client.port, context=context, timeout=20)
        connection.request("GET", "/api/event?id=cart:1")
        assert connection.getresponse().status == 200
        connection.close()
        with pytest.raises((http.client.HTTPException, OSError)):
            client.get("/healthz")
