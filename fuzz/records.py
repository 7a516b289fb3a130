"""Messages of applications that come by way of others: published and merged ones, operations of a replicated map."""

from __future__ import annotations

import msgspec

from beforehand.clocks import BoundedClock, OffsetStamp
from beforehand.formats.merged import MergedRecord, SetAsideRecord
from beforehand.formats.published import Arrived, RecordReader, stamp_bytes_max
from beforehand.ordering.merging import MergeSettings, MergeStamp, Published
from beforehand.runtime.nats import Connection
from beforehand.runtime.replicated import _Entries  # The machine of ReplicatedMap, without its group.
from fuzz.running import Target

__all__ = ["records"]

_ARRIVAL = 1_700_000_000_000_000_000
_SETTINGS = MergeSettings(epsilon_ns=2_000_000, delta_ns=50_000_000)


def records() -> list[Target]:
    """All of them."""
    now = _SETTINGS.reading(_ARRIVAL)
    stamps: list[MergeStamp] = [BoundedClock("a", _SETTINGS.bounds, now=now).tick(now), OffsetStamp(now, 3)]
    arrived = [_arrived(stamp, payload) for stamp, payload in zip(stamps, (b"text", b"\xff\x00"), strict=True)]
    headers = tuple(_header_lines(one.headers(), one.message.payload) for one in arrived)
    merged = tuple(_header_lines(one.merged_headers(7), one.message.payload) for one in arrived)
    operations = (["set", "k", b"v"], ["delete", "k"], ["compare", "k", None, b"v"], ["read", "k"])
    return [
        Target("published-line", tuple(one.line() for one in arrived), _published_line),
        Target("published-headers", headers, _published_headers),
        Target("merged-line", tuple(one.merged(7).line() for one in arrived), _merged_line),
        Target("merged-headers", merged, _merged_headers),
        Target("map-operation", tuple(map(msgspec.msgpack.encode, operations)), _operated),
    ]


def _arrived(stamp: MergeStamp, payload: bytes) -> Arrived:
    message = Published(publisher="a", sequence=5, stamp=stamp, payload=payload)
    text = stamp.to_text(limit=stamp_bytes_max(_SETTINGS))
    return Arrived(channel="prices", message=message, stamp=text, arrival=_ARRIVAL)


def _header_lines(headers: dict[str, str], payload: bytes) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode() + b"\r\n" + payload


def _headers(data: bytes) -> tuple[dict[str, str], bytes]:
    """As our connection to a broker reads them, and the payload behind them."""
    lines, _, payload = data.partition(b"\r\n\r\n")
    return Connection._parse_header_lines(lines), payload


def _published_line(data: bytes) -> None:
    _read_back(RecordReader(_SETTINGS).line(data))


def _published_headers(data: bytes) -> None:
    reader = RecordReader(_SETTINGS)
    headers, payload = _headers(data)
    found = reader.headers("prices", headers, payload, arrival=_ARRIVAL)
    _read_back(found)
    if isinstance(found, Arrived):
        assert reader.headers("prices", found.headers(), payload, arrival=_ARRIVAL) == found


def _read_back(found: Arrived | SetAsideRecord) -> None:
    """What is written of a record reads as an equal one; why one was set aside fits on a line."""
    if isinstance(found, Arrived):
        assert RecordReader(_SETTINGS).line(found.line()) == found
        merged = found.merged(1)
        assert MergedRecord.from_line(merged.line()) == merged
        assert MergedRecord.from_headers(found.channel, found.merged_headers(1), found.message.payload) == merged
    else:
        assert len(found.line().splitlines()) == 1
        assert found.detail.splitlines() == [found.detail]


def _merged_line(data: bytes) -> None:
    found = MergedRecord.from_line(data)
    assert MergedRecord.from_line(found.line()) == found


def _merged_headers(data: bytes) -> None:
    headers, payload = _headers(data)
    found = MergedRecord.from_headers("prices", headers, payload)
    assert MergedRecord.from_headers("prices", found.headers(), payload) == found


def _operated(data: bytes) -> None:
    entries = _Entries()
    entries.apply(data)
    other = _Entries()
    other.restore(entries.snapshot())
    assert other.held == entries.held
