"""Sources of spans: JSON Lines with bad beginnings, limits, files that never end, several files in one call."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.lines import Line
from beforehand.formats.opening import Limits
from beforehand.formats.spans import Note, Parsed, Span, read_jaeger, read_otlp, read_otlp_lines, read_zipkin
from beforehand.formats.spans.documents import SPAN_LIMITS, Document, Tolerated, read_documents

READERS = [read_otlp, read_jaeger, read_zipkin]


def documents(data: bytes, *, document_bytes_max: int = 1 << 20, limits: Limits = SPAN_LIMITS) -> list[object]:
    """Values, and the reasons of rejections with their lines."""
    found = read_documents(
        io.BytesIO(data), file="f", limits=limits, document_bytes_max=document_bytes_max, tolerated=Tolerated({})
    )
    return [item.value if isinstance(item, Document) else (item.reason, item.line) for item in found]


def bad(line: int) -> tuple[str, int]:
    return ("not-json", line)


BEGINNINGS = {
    "two bad lines": (b'x\ny\n{"a":1}\n{"a":2}\n', [bad(1), bad(2), {"a": 1}, {"a": 2}]),
    "many bad lines": (b"x\n" * 5 + b'\n{"a":1}\n', [*map(bad, range(1, 6)), {"a": 1}]),
    "a bad line that goes on": (b'x,\n{"a":1}\n{"a":2}\n', [bad(1), {"a": 1}, {"a": 2}]),
    "an object that is cut off": (b'{"a":[\n{"b":1}\n{"a":2}\n', [bad(1), {"b": 1}, {"a": 2}]),
    "a line that is too deep": (b"[" * 300 + b"]" * 300 + b'\n{"a":1}\n', [("too-deep", 1), {"a": 1}]),
    "byte order mark and a bad line": (b'\xef\xbb\xbfx,\n{"a":1}\n{"a":2}\n', [bad(1), {"a": 1}, {"a": 2}]),
    "more bad lines than are looked at": (b"x\n" * 2_000 + b'{"a":1}', [*map(bad, range(1, 2_001)), {"a": 1}]),
    "a scalar": (b'5\n{"a":1}\n', [5, {"a": 1}]),
    "a list without its commas": (b'[{"a":1}\n{"a":2}\n]', [bad(1), {"a": 2}, bad(3)]),
    "a document that is cut off": (b'[\n{"a":1},\n{"a":2},\n{"a"', [bad(1)]),
    "a document with a whole last element, cut off": (b'{"x":\n[\n{"a":1},\n{"a":2}\n', [bad(1)]),
    "a list with a whole element, cut off": (b'[\n{"a":1}\n', [bad(1)]),
    "two documents in one file": (b'{\n"a":1\n}\n{\n"a":2\n}\n', [bad(1)]),
    "a document whose lists stand on their own lines": (b'{"a":\n[1]\n,"b":\n[2]}', [{"a": [1], "b": [2]}]),
}


@pytest.mark.parametrize(("data", "expected"), BEGINNINGS.values(), ids=BEGINNINGS.keys())
def test_bad_lines_are_told_one_by_one_and_documents_as_one(data: bytes, expected: list[object]) -> None:
    assert documents(data) == expected


def test_limit_of_a_line_holds_for_all_lines_but_the_first_value() -> None:
    long = b'{"a":"' + b"x" * 50 + b'"}\n'
    limits = Limits(line_bytes_max=40)

    assert documents(long, limits=limits) == [{"a": "x" * 50}]  # It may be the whole document.
    assert documents(b'{"a":1}\n' + long + b'{"a":2}\n', limits=limits) == [{"a": 1}, ("line-too-long", 2), {"a": 2}]
    [rejection] = read_otlp_lines([Line(0, long)], limits=limits)
    assert isinstance(rejection, Rejection)
    assert rejection.detail == "the line has 59 bytes, the limit is 40: shorten it or raise line_bytes_max"


class Endless:
    """A source that never ends, and fails if far more is taken from it than makes sense."""

    def __init__(self, piece: bytes, *, first: bytes = b"", bytes_max: int = 1 << 30) -> None:
        self._first = first
        self._piece = piece
        self._left = bytes_max

    def read(self, size: int, /) -> bytes:
        if self._first:
            piece, self._first = self._first[:size], self._first[size:]
            return piece
        piece = (self._piece * (size // len(self._piece) + 1))[:size]
        self._left -= len(piece)
        assert self._left > 0, "this much was read of something that never ends"
        return piece


@pytest.mark.parametrize("read", READERS)
def test_endless_zeros_are_refused_after_a_few_bytes(read: Callable[..., Iterator[Parsed]]) -> None:
    [rejection] = read(Endless(b"\0", bytes_max=1 << 20))

    assert isinstance(rejection, Rejection)
    assert rejection.reason in ("not-json", "not-protobuf")
    assert "zero" in rejection.detail


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("data", [bytes(3), bytes(5_000), b"\xff\xfe{\0}\0", "{}".encode("utf-16-le"), b" \n\0\0"])
def test_file_of_zeros_is_one_rejection(read: Callable[..., Iterator[Parsed]], data: bytes) -> None:
    [rejection] = read(io.BytesIO(data))

    assert isinstance(rejection, Rejection)
    assert rejection.reason in ("not-json", "not-protobuf")


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("piece", [b"x", b"[", b"x\n", b'{"a":\n', b" "])
def test_endless_text_ends_at_the_limit(read: Callable[..., Iterator[Parsed]], piece: bytes) -> None:
    with pytest.raises(InputError, match="more than 1048576 bytes"):
        list(read(Endless(piece, bytes_max=1 << 23), document_bytes_max=1 << 20))


def test_endless_line_behind_good_ones_ends_too() -> None:
    good = b'{"traceId":"a","id":"1"}\n'

    span, rejection = read_zipkin(Endless(b"\0", first=good, bytes_max=1 << 22), document_bytes_max=1 << 16)

    assert isinstance(span, Span)
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "unreadable"
    assert "does not end" in rejection.detail


@pytest.mark.parametrize("read", READERS)
def test_zeros_behind_json_leave_the_json(read: Callable[..., Iterator[Parsed]]) -> None:
    value = {
        read_otlp: {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a", "spanId": "1"}]}]}]},
        read_jaeger: {"traceID": "a", "spanID": "1", "process": {"serviceName": "s"}},
        read_zipkin: {"traceId": "a", "id": "1"},
    }[read]

    span, rejection = read(io.BytesIO(json.dumps(value).encode() + b"\n" + bytes(1_000)))

    assert isinstance(span, Span)
    assert isinstance(rejection, Rejection)
    assert (rejection.reason, rejection.line) == ("not-json", 2)


@pytest.mark.parametrize("read", READERS)
def test_missing_file_or_directory_is_an_error_at_the_call(
    read: Callable[..., Iterator[Parsed]], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="cannot open"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match="is a directory"):
        read([tmp_path])


def test_several_files_are_read_in_the_order_of_their_paths_each_once(tmp_path: Path) -> None:
    for name, span_id in (("b", "2"), ("a", "1")):
        (tmp_path / name).write_text(f'[{{"traceId":"a","id":"{span_id}","id":"{span_id}"}}, 5]')

    found = list(read_zipkin([tmp_path / "b", str(tmp_path / "a"), tmp_path / "b"]))

    assert [type(item) for item in found] == [Span, Rejection, Note] * 2
    assert [cast(Span, item).span_id[-1] for item in found[::3]] == ["1", "2"]
    assert [cast(Rejection | Note, item).file for item in found if not isinstance(item, Span)] == [
        str(tmp_path / "a"), str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "b"),
    ]  # fmt: skip


def test_single_file_has_the_name_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("5")

    [rejection] = read_jaeger(tmp_path / "a", file="mine")

    assert isinstance(rejection, Rejection)
    assert rejection.file == "mine"
