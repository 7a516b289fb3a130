"""Logs that carry vector clocks: ShiViz, GoVector and DistributedClocks tracing."""

from beforehand.formats.sources import Source
from beforehand.formats.vector_logs.govector import read_govector
from beforehand.formats.vector_logs.inference import infer_messages
from beforehand.formats.vector_logs.layouts import LayoutChoice, TwoLines, choose_layout, guess_format
from beforehand.formats.vector_logs.shiviz import TimeUnit, read_shiviz
from beforehand.formats.vector_logs.tracing import read_tracing
from beforehand.formats.vector_logs.vector_log import Execution, Found
from beforehand.formats.vector_logs.whole_text import TEXT_LIMITS_DEFAULT, TextLimits

__all__ = [
    "TEXT_LIMITS_DEFAULT",
    "Execution",
    "Found",
    "LayoutChoice",
    "Source",
    "TextLimits",
    "TimeUnit",
    "TwoLines",
    "choose_layout",
    "guess_format",
    "infer_messages",
    "read_govector",
    "read_shiviz",
    "read_tracing",
]
