"""A service from start to stop: its parts, its clock, its server.

1. `Service` opens everything and binds the socket before anything is said; what cannot be had is one `InputError`
   (the port is taken, the store is held by another process, no token for a foreign address, a wrong certificate).
2. While it runs, a thread does the chores of parts.py: it settles the store and takes over changed tokens once a
   second. A failure there is said on the log, once while it stays the same, and tried again.
3. SIGTERM and SIGINT: no new connections, streams are told to end (`Served.stopping`), requests that are at work get
   `STOP_SECONDS`, then everything is closed. What was acknowledged is in the store in any case.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI

from beforehand.errors import InputError
from beforehand.service.http.app import make_app
from beforehand.service.http.connections import KEEP_ALIVE_SECONDS, bounded
from beforehand.service.http.limits import Limits
from beforehand.service.otlp import CollectorSettings
from beforehand.service.parts import Chore, serve_directory, serve_store
from beforehand.service.retention import RetentionSettings
from beforehand.service.served import LOOPBACK_NAMES, Hosts, Served
from beforehand.service.settings import Settings
from beforehand.service.subscriptions import DeliverySettings

__all__ = ["PORT", "Options", "Service"]

PORT: Final = 7171
STOP_SECONDS: Final = 5
_SEND_BYTES: Final = 256 << 10
_EVERYWHERE: Final = {"0.0.0.0", "[::]"}  # Nobody's name.  # noqa: S104
_log: Final = logging.getLogger("beforehand.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to serve, and where."""

    store: Path | None = None
    directory: Path | None = None  # Instead of a store.
    host: str = "127.0.0.1"
    port: int = PORT  # 0: any that is free.
    allow_hosts: tuple[str, ...] = ()  # Further names by which the service is called.
    require_token: bool = False  # On loopback too.
    tls_cert: Path | None = None
    tls_key: Path | None = None
    settings: Settings = field(default_factory=Settings)
    limits: Limits = field(default_factory=Limits)
    delivery: DeliverySettings = field(default_factory=DeliverySettings)
    collecting: CollectorSettings = field(default_factory=CollectorSettings)
    retaining: RetentionSettings = field(default_factory=RetentionSettings)


class Service:
    """Open one with its options, `run` it, close it; or use it as a context manager."""

    def __init__(self, options: Options) -> None:
        if (options.store is None) == (options.directory is None):
            raise InputError("serve a store or a history directory: one of them")
        self.options: Final = options
        self._stack: Final = ExitStack()
        self._chores: list[_Repeated] = []
        self._server: _Server | None = None  # While it runs, and after.
        self._stopped = False
        try:
            self._context = _tls(options)
            names = _hosts(options)
            self.socket: Final = _bound(options)
            self._stack.callback(self.socket.close)
            self.served: Final = self._parts(options, names)
            self._examine_tokens()
            self.app: Final[FastAPI] = make_app(self.served)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all parts; the last opened first."""
        self.served.stopping.set()
        self._stack.close()

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        """Where the page is."""
        host = self.options.host
        shown = f"[{host}]" if ":" in host else host
        return f"{'http' if self._context is None else 'https'}://{shown}:{self.port}/"

    @property
    def warning(self) -> str | None:
        """What whoever starts it should know."""
        if self.served.needs_token and self._context is None and not _is_loopback(self.options.host):
            return (
                "tokens travel without TLS: give --tls-cert and --tls-key, or bind to 127.0.0.1 behind a proxy that "
                "has TLS"
            )
        return None

    def run(self, *, started: Callable[[], object] = lambda: None) -> None:
        """Serve until a signal, or `stop`. `started` is called once connections are taken."""
        # Events in memory have no cycles: looking for garbage among them took a tenth of the time.
        gc.set_threshold(100_000, 50, 100)
        done = threading.Event()
        chores = threading.Thread(target=self._work, args=(done,), name="beforehand-settle", daemon=True)
        chores.start()
        self._server = server = _Server(self._config(), self.served, started)
        server.should_exit = self._stopped
        quiet = _Quiet(self.served)
        logging.getLogger("uvicorn.error").addFilter(quiet)
        # Uvicorn raises the signals that it got again when it has stopped; by then they were obeyed.
        kept: list[tuple[int, object]] = []
        if threading.current_thread() is threading.main_thread():
            kept = [(number, signal.signal(number, server.obey)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            server.run(sockets=[self.socket])
        finally:
            logging.getLogger("uvicorn.error").removeFilter(quiet)
            for number, handler in kept:
                signal.signal(number, handler)  # type: ignore[arg-type]
            self.served.stopping.set()
            done.set()
            chores.join()

    def stop(self) -> None:
        """End `run`, from another thread; if it has not begun, it ends at once."""
        self._stopped = True
        self.served.stopping.set()
        if self._server is not None:
            self._server.should_exit = True

    # Inside.

    def _parts(self, options: Options, hosts: Hosts) -> Served:
        if options.store is not None:
            served, chores = serve_store(
                options.store,
                self._stack,
                hosts=hosts,
                limits=options.limits,
                settings=options.settings,
                deliveries=options.delivery,
                collecting=options.collecting,
                retaining=options.retaining,
            )
        else:
            assert options.directory is not None
            served, chores = serve_directory(options.directory, self._stack, hosts=hosts, limits=options.limits)
        self._chores = [_Repeated(chore) for chore in chores]
        return served

    def _examine_tokens(self) -> None:
        tokens = self.served.tokens
        if self.served.needs_token and (tokens is None or not tokens.active):
            source = self.options.store or self.options.directory
            reason = (
                "all tokens were revoked"
                if tokens is not None and tokens.ever
                else f"{self.options.host} can be reached by others"
                if not _is_loopback(self.options.host)
                else "tokens are asked for"
            )
            raise InputError(
                f"{reason} and there is no token: make one with 'beforehand token add NAME --scope admin "
                f"--store {source}'"
            )

    def _config(self) -> uvicorn.Config:
        context = self._context
        return uvicorn.Config(
            self.app,
            http=bounded(self.options.limits),
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # Anybody could write them.
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            h11_max_incomplete_event_size=self.options.limits.head_bytes_max,
            ssl_certfile=self.options.tls_cert,
            ssl_keyfile=self.options.tls_key,
            ssl_context_factory=None if context is None else lambda *_: context,
        )

    def _work(self, done: threading.Event) -> None:
        """The thread that does what is to be done every second or so."""
        while not done.wait(min((chore.due - time.monotonic() for chore in self._chores), default=1.0)):
            for chore in self._chores:
                chore.look()


class _Repeated:
    def __init__(self, chore: Chore) -> None:
        self._chore: Final = chore
        self._said: str | None = None  # The last failure that was said.
        self.due = time.monotonic() + chore.seconds

    def look(self) -> None:
        if time.monotonic() < self.due:
            return
        try:
            self._chore.call()
            self._said = None
        except Exception as error:  # noqa: BLE001  # The thread must go on, whatever it was.
            said = f"{type(error).__name__}: {error}"
            if said != self._said:
                _log.error("%s failed, and is tried again (%s)", self._chore.name, said)
            self._said = said
        self.due = time.monotonic() + self._chore.seconds


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, served: Served, begun: Callable[[], object]) -> None:
        super().__init__(config)
        self._served: Final = served
        self._begun: Final = begun
        self._stopped = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._stopped:
            self.should_exit = True
        elif self.started:
            self._begun()

    def obey(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """A signal that came before Uvicorn takes them, or that it raises again after it has stopped."""
        self._stopped = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._served.stopping.set()
        super().handle_exit(sig, frame)


class _Quiet(logging.Filter):
    """A request that is cut off when the service stops is no fault: Uvicorn says how many, and needs no traceback."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self._served: Final = served

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not (isinstance(error, asyncio.CancelledError) and self._served.stopping.is_set())


def _is_loopback(host: str) -> bool:
    """Whether nobody else can reach this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in found)


def _hosts(options: Options) -> Hosts:
    """By which names it may be called. Bound to all addresses and told no names, it takes any: tokens guard it."""
    allowed = {_host_name(name) for name in options.allow_hosts}
    own = {f"[{options.host}]".lower() if ":" in options.host else options.host.lower()} - _EVERYWHERE
    if _is_loopback(options.host):
        return Hosts(
            names=LOOPBACK_NAMES | own | allowed, tokens_required=options.require_token or bool(options.allow_hosts)
        )
    return Hosts(names=LOOPBACK_NAMES | own | allowed if allowed else None, tokens_required=True)


def _host_name(text: str) -> str:
    name = text.strip().lower().removesuffix(".")
    is_address = name.startswith("[") and name.endswith("]")
    if (
        not name
        or len(name) > 253
        or any(not (c.isalnum() or c in "-._") for c in name.strip("[]:").replace(":", ""))
    ):
        raise InputError(f"--allow-host {text[:100]!r}: a name like events.example.com, without scheme and port")
    if ":" in name and not is_address:
        raise InputError(f"--allow-host {text[:100]!r}: leave out the port; an IPv6 address stands in brackets")
    return name


def _bound(options: Options) -> socket.socket:
    """A socket that listens. Bound before anything else is opened, so that a second start changes nothing."""
    where = f"{options.host} port {options.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{where}: {reason}: give an address of this machine") from None
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections have it too. A smaller one shows sooner whether a client takes anything (connections.py).
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        opened.bind(address)
        opened.listen(2048)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"{where} is in use: stop what listens there, or choose another with --port") from None
        raise InputError(f"{where} cannot be used: {error.strerror or error}") from None
    return opened


def _tls(options: Options) -> ssl.SSLContext | None:
    if (options.tls_cert is None) != (options.tls_key is None):
        raise InputError("--tls-cert and --tls-key go together: give both, or none")
    if options.tls_cert is None or options.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # With a password callback that gives nothing, an encrypted key fails instead of asking at the terminal.
        context.load_cert_chain(options.tls_cert, options.tls_key, password=lambda: "")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise InputError(
            f"--tls-cert {str(options.tls_cert)!r} with --tls-key {str(options.tls_key)!r}: {error}: give a "
            "certificate and its key, in PEM, the key without a password"
        ) from None
    return context
