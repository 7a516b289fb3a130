"""How a program reports its events: to an event service, or to a file."""

from beforehand.reporting.file_target import FileTarget
from beforehand.reporting.handler import ReportingHandler
from beforehand.reporting.http_target import HttpTarget
from beforehand.reporting.naming import process_name
from beforehand.reporting.reporter import Reporter, Sent
from beforehand.reporting.settings import DropPolicy, ReportLimits, Retries
from beforehand.reporting.status import Status
from beforehand.reporting.targets import Answer, Later, NotStored, Refused, Split, Taken, Target

__all__ = [
    "Answer",
    "DropPolicy",
    "FileTarget",
    "HttpTarget",
    "Later",
    "NotStored",
    "Refused",
    "ReportLimits",
    "Reporter",
    "ReportingHandler",
    "Retries",
    "Sent",
    "Split",
    "Status",
    "Taken",
    "Target",
    "process_name",
]
