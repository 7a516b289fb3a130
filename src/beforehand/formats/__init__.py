"""Bytes to events and back, one file per format."""

from beforehand.formats.lines import Line, split_lines
from beforehand.formats.native import NativeReader, read_events, read_lines, to_json, write_events
from beforehand.formats.opening import LIMITS_DEFAULT, Limits, Readable, open_bytes, replacing

__all__ = [
    "LIMITS_DEFAULT",
    "Limits",
    "Line",
    "NativeReader",
    "Readable",
    "open_bytes",
    "read_events",
    "read_lines",
    "replacing",
    "split_lines",
    "to_json",
    "write_events",
]
