"""Which reader a file needs: told from its first bytes, or said plainly why it cannot be told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from beforehand.errors import InputError
from beforehand.formats import detect
from real_data import real_file

NATIVE = b'{"process":"a","index":1,"sends":["m"]}\n{"process":"b","index":1,"receives":["m"]}\n'
TRACING = b'{"TracerIdentity":"a","TraceID":1,"Tag":"t","Body":{},"VectorClock":{"a":1}}\n'
SHIVIZ = b'hello\na {"a":1}\nbye\na {"a":2}\n'
GOVECTOR = b'a {"a":1}\nINFO hello\na {"a":2}\nbye\n'
SPAN = {"traceId": "0a", "spanId": "0b", "name": "get", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
OTLP = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}).encode()
JAEGER = json.dumps(
    {"data": [{"traceID": "a", "spans": [{"traceID": "a", "spanID": "b"}], "processes": {}}]}
).encode()
ZIPKIN = json.dumps([{"traceId": "a", "id": "b", "name": "get"}]).encode()


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message that has a length."""
    size, length = bytearray(), len(content)
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + content


def protobuf(spans: int) -> bytes:
    span = field(1, bytes(range(16))) + field(2, bytes(range(1, 9))) + field(5, b"get")
    resource = field(1, field(1, b"service.name") + field(2, field(1, b"shop")))
    return field(1, field(1, resource) + field(2, field(2, span) * spans))


def written(folder: Path, content: bytes, name: str = "input") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (NATIVE, "native"),
        (TRACING, "tracing"),
        (SHIVIZ, "shiviz"),
        (b"(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)\n\n" + GOVECTOR, "shiviz"),
        (GOVECTOR, "govector"),
        (OTLP, "otlp"),
        (OTLP + b"\n" + OTLP + b"\n", "otlp"),
        (b'{"resourceLogs":[]}\n', "otlp"),
        (b'{"resourceMetrics":[]}\n' + OTLP, "otlp"),  # A file exporter mixes signals.
        (json.dumps(json.loads(OTLP), indent=2).encode(), "otlp"),
        (protobuf(2), "otlp"),
        (len(protobuf(2)).to_bytes(4, "big") + protobuf(2), "otlp"),
        (JAEGER, "jaeger"),
        (json.dumps(json.loads(JAEGER), indent=1).encode(), "jaeger"),
        (b'{"traceID":"a","spans":[],"processes":{}}', "jaeger"),
        (b'{"data":[],"total":0,"limit":0,"offset":0,"errors":null}', "jaeger"),
        (b'{"hits":{"hits":[{"_source":{"traceID":"a","spanID":"b"}}]}}', "jaeger"),
        (ZIPKIN, "zipkin"),
        (b"[" + ZIPKIN + b"]", "zipkin"),
        (b'{"traceId":"a","id":"b"}\n{"traceId":"a","id":"c"}\n', "zipkin"),
        (b"PAR1\x15\x04\x15", "parquet"),
    ],
)
def test_content_tells_the_format(tmp_path: Path, content: bytes, expected: str) -> None:
    assert detect(written(tmp_path, content)) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + NATIVE,
        b"\n \r\n\n" + NATIVE,
        b'{"process":"a","ind\n{"process": oops}\n' + NATIVE,
        b"Starting up\n" + NATIVE,
        b'{"other":1}\n' + NATIVE,
        NATIVE.replace(b"\n", b"\r\n"),
        b'{"process":"a","recieves":["m"],"index":1}\n' * 3,  # Misspelt, which its reader says of each line.
        b'{"process":"a","name":"' + b"x" * 600_000 + b'"}\n',
    ],
)
def test_what_stands_around_events_does_no_harm(tmp_path: Path, content: bytes) -> None:
    assert detect(written(tmp_path, content)) == "native"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps([{"traceId": "a", "id": f"{i}", "tags": {"k": '[{,\\"'}} for i in range(20_000)]), "zipkin"),
        (json.dumps([{"traceId": "a", "id": f"{i}"} for i in range(20_000)], indent=2), "zipkin"),
        (json.dumps({"data": [{"traceID": "a", "spans": [{"spanID": "x" * 900_000}]}]}), "jaeger"),
        (json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN] * 9_000}]}]}), "otlp"),
    ],
)
def test_a_document_that_goes_on_behind_the_head_is_told_by_its_beginning(
    tmp_path: Path, content: str, expected: str
) -> None:
    assert len(content) > 300_000
    assert detect(written(tmp_path, content.encode())) == expected


@pytest.mark.parametrize("length_bytes", [0, 4], ids=["plain", "framed"])
def test_a_protobuf_message_that_goes_on_behind_the_head_is_told_by_its_outline(
    tmp_path: Path, length_bytes: int
) -> None:
    message = protobuf(20_000)
    prefix = len(message).to_bytes(4, "big")[:length_bytes]

    assert len(message) > 300_000
    assert detect(written(tmp_path, prefix + message)) == "otlp"


def test_only_the_beginning_is_read(tmp_path: Path) -> None:
    # A TiB, most of it a hole: read whole it would never end.
    path = written(tmp_path, NATIVE * 8_000)
    with path.open("r+b") as stream:
        stream.truncate(1 << 40)

    assert detect(path) == "native"


def test_compressed_files_are_opened_by_suffix_and_their_content_decides(tmp_path: Path) -> None:
    assert detect(written(tmp_path, gzip.compress(OTLP), "spans.jsonl.gz")) == "otlp"
    assert detect(written(tmp_path, zstandard.compress(NATIVE), "events.zst")) == "native"
    assert detect(written(tmp_path, JAEGER, "misnamed.parquet")) == "jaeger"


def test_a_cut_gzip_file_is_told_by_what_can_be_read(tmp_path: Path) -> None:
    content = gzip.compress(b"".join(b'{"process":"p%d","index":%d}\n' % (i % 97, i) for i in range(20_000)))
    assert detect(written(tmp_path, content[: len(content) // 2], "cut.gz")) == "native"
    with pytest.raises(InputError, match=r"none\.gz: broken gzip data"):
        detect(written(tmp_path, content[:12], "none.gz"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty: leave it out, or name its format with --format NAME"),
        (b"\n  \r\n", "has nothing but blanks"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00", "binary data of no known format"),
        (b"\x0a\x05hello\x00\x01", "binary data"),
        (NATIVE.decode().encode("utf-16"), "UTF-16: convert it to UTF-8"),
        (NATIVE.decode().encode("utf-16-be"), "UTF-16"),
        (gzip.compress(NATIVE), "gzip data, but its name does not end in .gz: rename it"),
        (zstandard.compress(NATIVE), "zstd data"),
        (
            b'{"service":"a","msg":"b","ts":1}\n',
            "JSON with keys service, msg, ts: say what its fields mean with --map",
        ),
        (b'{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}', "keys a, b, c, d, e and 2 more"),
        (b'{"process":"a","msg":"b","ts":1}\n', "JSON with keys process, msg, ts"),
        (b'{\n "service": "a",\n "odd key": 1\n}', 'keys service, "odd key": put one record a line'),
        (b'[{"process":"a","index":1}]', "events in one JSON document: write one event a line"),
        (b'[\n{"process":"a","index":1},\n{"process":"b","index":1}\n]', "events in one JSON document"),
        (b"{}\n[]\n", "JSON without any keys that tell"),
        (b'{"context":{"trace_id":"0x1"},"start_time":"x"}', "console exporter"),
        (b"time,service,msg\n1,a,hello\n2,b,bye\n", "CSV with columns time, service, msg: say what its fields mean"),
        (b'"time";"service"\n1;a\n', "CSV with columns time, service"),
        (
            b'[INFO] host1 {"host1": 1} hello\n',
            "vector clocks in a layout of its own: say how to read it with --format",
        ),
        (b"Jan 1 00:00:00 host sshd[1]: hello\n", "text of no known format"),
        (b'{"process":"a", oops\n', "broken JSON"),
    ],
)
def test_what_cannot_be_told_is_said_in_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(InputError) as error:
        detect(written(tmp_path, content))

    assert says in str(error.value)
    assert str(error.value).startswith(str(tmp_path))
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_a_directory_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        detect(tmp_path / "none")
    with pytest.raises(InputError, match="is a directory"):
        detect(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b'"\\"' * 90_000, b"[" * 270_000, b'{"a":' * 60_000, b"{" + b" " * 270_000, b'[{"a":"' * 40_000],
    ids=["escapes", "brackets", "objects", "blanks", "mixed"],
)
def test_odd_content_is_refused_and_not_a_crash(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError):
        detect(written(tmp_path, content))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jaeger/deathstarbench.json", "jaeger"),
        ("jaeger/jaeger-ui-flamegraph.json", "jaeger"),
        ("jaeger/jaeger-ui-genai.json", "jaeger"),
        ("jaeger/jaeger-ui-odd-references.json", "jaeger"),
        ("otlp/example_trace.json", "otlp"),
        ("otlp/link_attributes_trace.json", "otlp"),
        ("otlp/otel_traces_01.json", "otlp"),
        ("otlp/proto-example.json", "otlp"),
        ("shiviz/chord.log", "govector"),
        ("shiviz/facebook-multiple.log", "shiviz"),
        ("shiviz/multiple-comparison.log", "shiviz"),
        ("shiviz/simpledb.log", "shiviz"),
        ("shiviz/tsviz_shared_var_4_threads.log", "shiviz"),
        ("shiviz/voldemort.log", "shiviz"),
        ("tracing/echo-shiviz.log", "shiviz"),
        ("tracing/echo.log", "tracing"),
        ("tracing/example2.log", "tracing"),
        ("train-ticket/zipkin-v1.json", "zipkin"),
        ("zipkin/messaging-kafka.json", "zipkin"),
        ("zipkin/skew.json", "zipkin"),
        ("zipkin/smartthings-oauth-authorization.json", "zipkin"),
        ("zipkin/yelp.json", "zipkin"),
    ],
)
def test_real_files_are_told(name: str, expected: str) -> None:
    assert detect(real_file(name)) == expected


@pytest.mark.parametrize("name", ["shiviz/reliable-broadcast.log", "train-ticket/shiviz.log"])
def test_real_logs_that_need_a_regex_are_said_to(name: str) -> None:
    with pytest.raises(InputError, match="--regex REGEX"):
        detect(real_file(name))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'[{"traceId": "01", "id": "02", "timest', "zipkin"),
        (b'{"data": [{"traceID": "01", "spans": [\n{"spanID": "0', "jaeger"),
        (b'{"process": "a"}\n\0\0\0\0\n{"process": "a"}\n', "native"),
    ],
)
def test_a_file_that_breaks_off_or_holds_zeros_is_told_all_the_same(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    assert detect(tmp_path / "file") == expected
