"""NATS: addresses, connections and streams of a broker with JetStream.

An address is `nats://HOST:PORT/STREAM`, with `tls://` for TLS; user and password, or a token, may stand before the
host and are never shown. `connect` gives a connection or a BrokerError of one line: what could not be had, where, and
what to do. A lost connection comes back by itself for `RECONNECT_S`; then it is closed for good.

`Connection` is the client of nats-py with two shortcuts, without which a live merger would spend most of its time
there: headers are parsed and written plainly. In a profile of nats-py 2.16 with three headers a message, two thirds
of the time of receiving were the parsing of headers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig, StreamInfo

from beforehand.errors import BrokerError, InputError

__all__ = [
    "FAILURES",
    "Connection",
    "StreamAddress",
    "connect",
    "covers",
    "ensure_stream",
    "find_stream",
    "refusal",
    "shown_server",
]

PORT: Final = 4222
CONNECT_S: Final = 5.0
CLOSE_S: Final = 1.0  # After a failed TLS handshake, asyncio would wait for ever for the end of the connection.
RECONNECT_S: Final = 60.0
RECONNECT_WAIT_S: Final = 0.25
PENDING_BYTES_MAX: Final = 16 * 1024 * 1024

# What nats-py raises when something does not work. A RuntimeError comes of its loop, an ImportError of missing nkeys.
FAILURES: Final = (nats.errors.Error, OSError, TimeoutError, ValueError, RuntimeError, ImportError)

_STREAM_NAME_MAX: Final = 255
_FORBIDDEN_IN_STREAM: Final = frozenset(" \t\r\n.*>/\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAddress:
    """A stream of a broker, and which subjects of it are meant."""

    server: str  # With what is needed to be let in: do not show it.
    stream: str
    subject: str | None = None  # A filter, as in NATS: `orders.*`. None: all.
    prefix: str | None = None  # For output: subjects begin with it. None: the stream's name.

    @classmethod
    def parse(cls, text: str) -> StreamAddress:
        """`nats://HOST[:PORT]/STREAM[?subject=…][&prefix=…]`; InputError if it is none."""
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, PORT if parts.port is None else parts.port
        except ValueError:
            raise InputError("the address is not nats://HOST:PORT/STREAM") from None
        if parts.scheme not in ("nats", "tls") or not host or port == 0 or parts.fragment:
            raise InputError("the address is not nats://HOST:PORT/STREAM (or tls://…)")
        where = f"{_bracketed(host)}:{port}"
        stream = unquote(parts.path.strip("/"))
        if not stream or len(stream) > _STREAM_NAME_MAX or _FORBIDDEN_IN_STREAM & set(stream):
            raise InputError(f"nats://{where}/…: name a stream after the host, without blanks and . * > / in it")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(options.keys() - {"subject", "prefix"})
        if unknown:
            raise InputError(
                f"nats://{where}/{stream}: {unknown[0]!r} is no part of an address: subject and prefix are"
            )
        for value in options.values():
            if not value or any(blank in value for blank in " \t\r\n"):
                raise InputError(f"nats://{where}/{stream}: subject and prefix are not empty and have no blanks")
        known = parts.netloc.rpartition("@")[0]
        server = f"{parts.scheme}://{known}{'@' if known else ''}{where}"
        return cls(server=server, stream=stream, subject=options.get("subject"), prefix=options.get("prefix"))

    @property
    def shown(self) -> str:
        """The address without user, password or token."""
        return f"{shown_server(self.server)}/{self.stream}"


def shown_server(server: str) -> str:
    """An address of a server, without user, password or token."""
    scheme, _, rest = server.rpartition("://")
    return f"{scheme or 'nats'}://{rest.rpartition('@')[2].partition('/')[0]}"


class NoTlsError(nats.errors.Error):
    """TLS was asked for, and the server has none: nothing was sent to it."""

    def __str__(self) -> str:
        return "the server offers no TLS"


class Connection(Client):
    """The client of nats-py, with plainer headers. See the module."""

    demands_tls = False  # The library itself is content without, if the server does not ask for it.

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self.demands_tls and not info.get("tls_required"):
            raise NoTlsError
        await super()._process_info(info, initial_connection)

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> Any:
        try:
            subject.decode()
        except UnicodeDecodeError:
            # Otherwise it would end the reading of everything. A reader refuses such a channel.
            subject = subject.decode(errors="replace").encode()
        return super()._build_message(sid, subject, reply, data, headers)

    async def send(self, commands: Iterable[bytes]) -> None:
        """Send commands that `command` made, in order."""
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        await self._send_command(b"".join(commands))
        await self._flush_pending()

    @staticmethod
    def command(subject: str, payload: bytes, *, headers: Mapping[str, str], reply: str = "") -> bytes:
        """One message to publish. Values have no line ends; `RecordReader` lets none in."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        block = f"NATS/1.0\r\n{lines}\r\n".encode()
        size = len(block) + len(payload)
        return b"%b%b%b\r\n" % (f"HPUB {subject} {reply} {len(block)} {size}\r\n".encode(), block, payload)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        """Strictly: a name that comes twice gets both values, so that none of the two is taken for the only one."""
        found: dict[str, str] = {}
        # What is no UTF-8 stays recognizable, so that a reader can refuse it.
        for line in raw.decode("utf-8", "surrogateescape").split("\r\n"):
            name, colon, value = line.partition(":")
            if colon:
                name, value = name.strip(), value.strip()
                found[name] = f"{found[name]}, {value}" if name in found else value
        return found


async def connect(
    server: str,
    *,
    credentials: Path | None = None,
    tls_ca: Path | None = None,
    timeout_s: float = CONNECT_S,
) -> Connection:
    """A connection to a broker with JetStream. `credentials` is a file of NATS (.creds), `tls_ca` a certificate."""
    shown = shown_server(server)
    await _knock(server, shown, timeout_s)
    context = _tls_context(server, tls_ca)
    if credentials is not None and not credentials.is_file():
        raise InputError(f"{credentials}: no such credentials file")
    connection = Connection()
    connection.demands_tls = context is not None
    said: list[Exception] = []

    async def note(error: Exception) -> None:
        said[:] = [error]  # The last one is enough.

    try:
        await asyncio.wait_for(
            connection.connect(
                server,
                error_cb=note,
                allow_reconnect=False,
                connect_timeout=timeout_s,  # type: ignore[arg-type]  # Seconds; a fraction will do.
                reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]
                max_reconnect_attempts=int(RECONNECT_S / RECONNECT_WAIT_S),
                ping_interval=10,
                pending_size=PENDING_BYTES_MAX,
                tls=context,
                user_credentials=None if credentials is None else str(credentials),
                name="beforehand",
            ),
            timeout_s,
        )
        connection.options["allow_reconnect"] = True  # From now on: a broker that is not there at first is an error.
        await connection.jetstream(timeout=timeout_s).account_info()
    except FAILURES as error:
        with suppress(*FAILURES):
            await asyncio.wait_for(connection.close(), CLOSE_S)
        raise refusal(shown, said[-1] if said and isinstance(error, TimeoutError) else error) from None
    return connection


async def find_stream(jetstream: JetStreamContext, address: StreamAddress) -> StreamInfo | None:
    """What the broker says of a stream; None if it has none of that name."""
    try:
        return await jetstream.stream_info(address.stream)
    except nats.js.errors.NotFoundError:
        return None
    except FAILURES as error:
        raise refusal(address.shown, error) from None


async def ensure_stream(
    jetstream: JetStreamContext, address: StreamAddress, subjects: Sequence[str], *, memory: bool = False
) -> StreamInfo:
    """The stream, made if it is not there: kept in files, without limits, for as many readers as come.

    One that is there stays as it is; it must take these subjects.
    """
    found = await find_stream(jetstream, address)
    if found is None:
        config = StreamConfig(
            name=address.stream,
            subjects=list(subjects),
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.NEW,  # With limits set later: refuse what is new, rather than forget positions.
            storage=StorageType.MEMORY if memory else StorageType.FILE,
            allow_direct=True,
        )
        try:
            return await jetstream.add_stream(config)
        except nats.js.errors.BadRequestError as error:
            again = await find_stream(jetstream, address)
            if again is None:  # Otherwise somebody else has just made it.
                raise BrokerError(f"{address.shown}: the stream cannot be made: {error.description}") from None
            found = again
        except FAILURES as error:
            raise refusal(address.shown, error) from None
    missing = [
        subject for subject in subjects if not any(covers(own, subject) for own in found.config.subjects or ())
    ]
    if missing:
        raise BrokerError(
            f"{address.shown}: the stream does not take the subject {missing[0]!r}: add it, or use another stream"
        )
    return found


def covers(pattern: str, subject: str) -> bool:
    """Whether all that `subject` (which may have wildcards itself) matches is matched by `pattern`."""
    wide, narrow = pattern.split("."), subject.split(".")
    for at, part in enumerate(wide):
        if part == ">":
            return len(narrow) > at
        if at >= len(narrow) or narrow[at] == ">" or (part != "*" and part != narrow[at]):
            return False
    return len(wide) == len(narrow)


async def _knock(server: str, shown: str, timeout_s: float) -> None:
    """Whether anybody listens there: the library would try for long and then not say."""
    parts = urlsplit(server)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, parts.port or PORT), timeout_s)
    except TimeoutError:
        raise BrokerError(f"{shown}: no answer within {timeout_s:g} s: is it the right address?") from None
    except OSError as error:
        if isinstance(error, ConnectionRefusedError):
            reason = "nothing listens there"
        else:
            reason = (error.strerror or "it cannot be reached").lower()
        raise BrokerError(
            f"{shown}: {reason}: start a NATS server there, or a merger with --embedded-broker"
        ) from None
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def _tls_context(server: str, tls_ca: Path | None) -> ssl.SSLContext | None:
    if tls_ca is None:
        return ssl.create_default_context() if server.startswith("tls://") else None
    try:
        return ssl.create_default_context(cafile=str(tls_ca))
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{tls_ca}: not a certificate that can be read: {error}") from None


def refusal(shown: str, error: Exception) -> BrokerError:
    """One line for whatever the library raises. Its own texts never have what was in the address."""
    text = " ".join(str(error).split()).lower()
    if isinstance(error, nats.errors.AuthorizationError) or "authorization" in text or "authentication" in text:
        return BrokerError(f"{shown}: the broker does not let us in: give user, password or --credentials")
    if isinstance(error, nats.js.errors.ServiceUnavailableError | nats.errors.NoRespondersError):
        return BrokerError(f"{shown}: the broker has no JetStream: start it with -js")
    if isinstance(error, nats.js.errors.APIError):
        return BrokerError(f"{shown}: the broker refuses: {error.description or type(error).__name__}")
    if isinstance(error, ImportError):
        return BrokerError(f"{shown}: credentials need the package {error.name}: pip install nkeys")
    if isinstance(error, NoTlsError):
        return BrokerError(f"{shown}: the server offers no TLS: use nats:// without --tls-ca, or start it with TLS")
    if isinstance(error, ssl.SSLError):
        return BrokerError(f"{shown}: TLS failed: {error.reason or 'the certificate is not trusted'}: see --tls-ca")
    if isinstance(error, TimeoutError | nats.errors.TimeoutError):
        return BrokerError(f"{shown}: no answer in time: is it a NATS server?", may_have_happened=True)
    return BrokerError(f"{shown}: the broker cannot be used: {text or type(error).__name__}", may_have_happened=True)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
