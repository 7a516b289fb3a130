"""What takes bytes from strangers: decoders of stamps and packets, readers of files, bodies of requests.

Readers do not raise for bad lines, they reject them: what they give is consumed, and the events of it must be events
that a history takes.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec

from beforehand.clocks import (
    BoundedStamp,
    DifferenceDecoder,
    DifferenceEncoder,
    HybridStamp,
    LamportStamp,
    MatrixStamp,
    OffsetStamp,
    OrderingStamp,
    VectorStamp,
    View,
)
from beforehand.events import Event, Rejection
from beforehand.formats import LIMITS_DEFAULT, Line, detect, parse_native, read_events, to_json
from beforehand.formats.json_text import RefusedError
from beforehand.formats.mapped import read_map, read_mapped
from beforehand.formats.opening import open_bytes
from beforehand.formats.spans import LogRecord, Span, executions, read_jaeger, read_otlp, read_zipkin, spans_to_events
from beforehand.formats.vector_logs import read_govector, read_shiviz, read_tracing
from beforehand.ordering import PROTOCOLS, ReliableLink
from beforehand.ordering.effects import Transmit
from beforehand.predicate import Predicate
from beforehand.rpc.headers import MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER, read, vector_text, written
from beforehand.runtime.codec import decode_packet, decode_snapshot, encode
from beforehand.runtime.state_packets import StateDropped, StatePiece, StateTaken, StateWanted
from beforehand.service.finding import decode_cursor
from beforehand.service.http.errors import HttpError
from beforehand.service.http.reports import decompressed, parsed
from beforehand.service.subscriptions.addresses import parse_target
from beforehand.sim.scenario import read_scenario
from fuzz.records import records
from fuzz.running import Target
from fuzz.wires import wires

__all__ = ["targets"]

_PROCESSES = ("a", "cart", "ßü", "x" * 40)
_EVENTS = [
    Event(process="a", index=1, name="ask", sends=("m",), time=1, clock={"a": 1}),
    Event(process="b", index=2, receives=("m",), execution="t/1", attributes={"k": "v", "level": "error"}),
]


def targets() -> list[Target]:
    """All of them."""
    packets = _packets()
    sent = next(target.seeds for target in packets if target.name == "group-packet")
    return [*_stamps(), *packets, *_lines(), *_files(), *_texts(), *records(), *wires(sent)]


def _stamps() -> list[Target]:
    vector = VectorStamp({process: number**9 + 1 for number, process in enumerate(_PROCESSES)})
    view = View(_PROCESSES)
    made: list[tuple[str, Any, tuple[bytes, ...]]] = [
        ("vector", VectorStamp.decode, (vector.encode(), VectorStamp().encode())),
        ("vector-in-view", partial(VectorStamp.decode, view=view), (vector.encode(view=view),)),
        ("lamport", LamportStamp.decode, (LamportStamp(7, "a").encode(), LamportStamp(2**60, "ß").encode())),
        ("hybrid", HybridStamp.decode, (HybridStamp(2**50 + 3).encode(),)),
        ("bounded", partial(BoundedStamp.decode, near=100), (BoundedStamp(100, 3, (0, 1, 2, 0), 1_000).encode(),)),
        ("offset", OffsetStamp.decode, (OffsetStamp(100, 3).encode(),)),
    ]
    encoder = DifferenceEncoder(epoch=7)
    first, second = encoder.encode(vector), encoder.encode(vector)

    def differences(data: bytes) -> None:
        decoder = DifferenceDecoder()
        decoder.decode(first)
        decoder.decode(data)

    return [
        *(Target(f"stamp-{name}", seeds, decode) for name, decode, seeds in made),
        Target("stamp-difference", (second,), differences),
        Target("stamp-matrix", _matrix_seeds(), partial(MatrixStamp.decode, view=View(("a", "b", "c")))),
        Target("stamp-ordering", _ordering_seeds(), OrderingStamp.decode),
    ]


def _matrix_seeds() -> tuple[bytes, ...]:
    from beforehand.clocks import MatrixClock

    clock = MatrixClock("a", View(("a", "b", "c")))
    return (clock.send("b").encode(), clock.send("b", "c").encode())


def _ordering_seeds() -> tuple[bytes, ...]:
    from beforehand.clocks import OrderingClock

    clock = OrderingClock("a")
    return (clock.send("b").encode(), clock.send("b", "c").encode())


def _packets() -> list[Target]:
    packets: list[bytes] = []
    snapshots: list[bytes] = []
    members: list[Target] = []
    view = View(("a", "b", "c"))
    for name, protocol in PROTOCOLS.items():
        if name in ("causal-merge", "timed-delivery"):
            continue
        link = ReliableLink(protocol("a", view))
        to = ["b"] if protocol.traits.destinations.name == "ONE" else None
        effects = [*link.tick(now=1), *link.send(b"payload", to, now=1)]
        seeds = tuple(encode(effect.packet) for effect in effects if isinstance(effect, Transmit))
        packets += seeds
        members.append(Target(f"member-{name}", seeds, partial(_received, protocol)))
        snapshots.append(encode(link.snapshot()))
    packets += map(encode, _state_packets())
    return [
        Target("group-packet", tuple(packets), decode_packet),
        Target("group-snapshot", tuple(snapshots), decode_snapshot),
        *members,
    ]


def _state_packets() -> list[Any]:
    """What members say to a newcomer about the application's state, and it to them."""
    piece = StatePiece(view=2, offset=0, total=3, digest=b"d" * 16, data=b"abc")
    return [StateWanted(view=2, offset=0), piece, StateTaken(view=2), StateDropped(view=2)]


def _received(protocol: Any, data: bytes) -> None:
    """What a member does with a packet that another may have sent, and then with one that it has sent."""
    link = ReliableLink(protocol("b", View(("a", "b", "c"))))
    link.receive("a", decode_packet(data), now=1)
    link.tick(now=2_000_000_000)
    link.pending()
    link.missing()
    link.restore(decode_snapshot(encode(link.snapshot())))


def _lines() -> list[Target]:
    seeds = tuple(to_json(event) for event in _EVENTS)

    def native(data: bytes) -> None:
        try:
            found = parse_native(Line(1, data), limits=LIMITS_DEFAULT)
        except RefusedError:
            return
        if found is not None and found.index is not None:
            found.numbered(found.index)

    def body(kind: str, encoding: str, data: bytes) -> None:
        try:
            for report in parsed(decompressed(data, encoding, 1 << 20), kind, 1_000):
                assert isinstance(report, Event | Rejection)
        except HttpError as error:
            if not 400 <= error.status < 500:
                raise AssertionError(f"status {error.status}") from error

    lines = b"\n".join(seeds)
    array = b"[" + b",".join(seeds) + b"]"
    return [
        Target("native-line", seeds, native),
        Target("report-lines", (lines,), partial(body, "application/x-ndjson", "")),
        Target("report-array", (array,), partial(body, "application/json", "")),
        Target("report-gzip", (gzip.compress(lines, mtime=0),), partial(body, "application/x-ndjson", "gzip")),
    ]


def _files() -> list[Target]:
    shiviz = b'send\nalpha {"alpha":1}\ngot\nbeta {"beta":1,"alpha":1}\nx\ngamma {"gamma":1}\n'
    govector = b'a {"a":1}\nInitialization Complete\nb {"b":2, "a":1}\ngot a message\n'
    tracing = json.dumps(
        {"TracerIdentity": "a", "TraceID": 1, "Tag": "T", "Body": {"x": 1}, "VectorClock": {"a": 1, "b": 2}}
    ).encode()
    span = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": "GET"}
    times = {"startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000"}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    otlp = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [{**span, **times, "kind": 2}]}]}]}
    jaeger_span = {
        "traceID": "1f",
        "spanID": "2f",
        "operationName": "GET",
        "references": [{"refType": "CHILD_OF", "traceID": "1f", "spanID": "3f"}],
        "startTime": 5,
        "duration": 7,
        "tags": [{"key": "error", "type": "bool", "value": True}],
        "processID": "p1",
    }
    jaeger = {"data": [{"traceID": "1f", "spans": [jaeger_span], "processes": {"p1": {"serviceName": "shop"}}}]}
    zipkin = [
        {"traceId": "a", "id": "b", "name": "get", "kind": "SERVER", "timestamp": 5, "duration": 3},
        {"traceId": "a", "id": "c", "parentId": "b", "annotations": [{"timestamp": 5, "value": "cs"}]},
    ]
    documents: list[tuple[str, bytes, Callable[..., Iterable[Any]]]] = [
        ("otlp", json.dumps(otlp).encode(), read_otlp),
        ("otlp-protobuf", _protobuf(), read_otlp),
        ("jaeger", json.dumps(jaeger).encode(), read_jaeger),
        ("zipkin", json.dumps(zipkin).encode(), read_zipkin),
    ]
    logs: list[tuple[str, bytes, Callable[..., Iterable[Any]]]] = [
        ("shiviz", shiviz, read_shiviz),
        ("govector", govector, read_govector),
        ("tracing", tracing, read_tracing),
        ("native", b"".join(to_json(event) + b"\n" for event in _EVENTS), read_events),
    ]
    return [
        *(Target(name, (seed,), partial(_spans, reader)) for name, seed, reader in documents),
        *(Target(name, (seed,), partial(_consumed, reader)) for name, seed, reader in logs),
        Target("detect", tuple(seed for _, seed, _ in (*documents, *logs)), partial(_in_file, detect, "")),
        Target("file-gzip", (gzip.compress(govector, mtime=0),), partial(_in_file, _opened, ".gz")),
        Target("file-zstd", (_zstd(govector), _zstd(govector * 500)), partial(_in_file, _opened, ".zst")),
        Target("csv-map", (b"process,name,time\na,ask,5\nb,answer,6\n",), _mapped),
        Target(
            "map-file", (b'process = "host"\ntime = "ts"\nname = ["a", "b"]\n',), partial(_in_file, read_map, ".toml")
        ),
        Target("scenario", _scenario(), partial(_in_file, read_scenario, ".json")),
    ]


def _zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def _opened(path: Path) -> None:
    with open_bytes(path) as source:
        while source.read(1 << 16):
            pass


def _protobuf() -> bytes:
    """One span as OTLP has it: a resource with a scope with a span."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    span = field(1, b"\x01" * 16) + field(2, b"\x02" * 8) + field(5, b"GET")
    span += bytes([7 << 3 | 1]) + (1544712660).to_bytes(8, "little")
    return field(1, field(2, field(2, span)))


def _scenario() -> tuple[bytes, ...]:
    from beforehand.sim import draw, write_scenario

    return tuple(write_scenario(draw(name, seed=3)) for name in ("fifo", "skeen"))


def _texts() -> list[Target]:
    vector = VectorStamp({"a": 3, "b": 1})
    headers = written("a:3", vector_text(vector, limit=1_000, view=None))

    def carried(data: bytes) -> None:
        text = data.decode("latin-1")
        message, _, rest = text.partition("\n")
        stamp, _, voids = rest.partition("\n")
        given = {MESSAGE_HEADER: message, STAMP_HEADER: stamp, **({VOID_HEADER: voids} if voids else {})}
        read(given, limit=6_144)

    def text(call: Callable[[str], object], data: bytes) -> None:
        call(data.decode("utf-8", "surrogateescape"))

    wheres = (b'name ~ "fail.*" and (process = cart or time > 5)', b"not attributes.level = error or kind = send")
    return [
        Target("rpc-headers", ("\n".join([headers[MESSAGE_HEADER], headers[STAMP_HEADER]]).encode(),), carried),
        Target("predicate", wheres, partial(text, Predicate.parse)),
        Target("webhook-address", (b"https://example.org:8443/x?y=1",), partial(text, parse_target)),
        Target("cursor", (_cursor(),), partial(text, decode_cursor)),
    ]


def _cursor() -> bytes:
    return urlsafe_b64encode(msgspec.msgpack.encode((5, 3, "a", 2, "")))


def _spans(reader: Callable[..., Iterable[Any]], data: bytes) -> None:
    found = list(reader(BytesIO(data)))
    spans = [one for one in found if isinstance(one, Span)]
    logs = [one for one in found if isinstance(one, LogRecord)]
    names = executions(spans, logs)
    for name in set(names.values()):
        mine = [span for span in spans if names[span.trace_id] == name]
        spans_to_events(mine, [log for log in logs if names.get(log.trace_id) == name], execution=name)


def _consumed(reader: Callable[..., Iterable[Any]], data: bytes) -> None:
    for one in reader(BytesIO(data)) if reader is not read_events else _in_file(reader, "", data):
        assert isinstance(one, Event | Rejection)


def _in_file(call: Callable[[Path], Any], suffix: str, data: bytes) -> Any:
    """For what takes a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"input{suffix}"
        path.write_bytes(data)
        found = call(path)
        return list(found) if isinstance(found, Iterable) and not isinstance(found, str | bytes) else found


def _mapped(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fields = Path(folder) / "map.toml"
        fields.write_text('process = "process"\nname = "name"\ntime = "time"\n')
        path = Path(folder) / "input.csv"
        path.write_bytes(data)
        for one in read_mapped(path, read_map(fields)):
            assert isinstance(one, Event | Rejection)
