"""Bytes to events and back, one file per format."""

from beforehand.formats.detection import detect
from beforehand.formats.lines import Line, split_lines
from beforehand.formats.mapped import FieldMap, read_map
from beforehand.formats.native import NativeReader, read_events, read_lines, to_json, write_events
from beforehand.formats.opening import LIMITS_DEFAULT, Limits, Readable, open_bytes, replacing
from beforehand.formats.unnumbered import Unnumbered, parse_native

__all__ = [
    "LIMITS_DEFAULT",
    "FieldMap",
    "Limits",
    "Line",
    "NativeReader",
    "Readable",
    "Unnumbered",
    "detect",
    "open_bytes",
    "parse_native",
    "read_events",
    "read_lines",
    "read_map",
    "replacing",
    "split_lines",
    "to_json",
    "write_events",
]
