"""Log records as events: `logging.getLogger().addHandler(ReportingHandler(reporter))`.

Guarantees:
  1. It never raises and never writes anywhere else: a record that cannot be reported is counted in `failed`.
  2. It never reports about reporting: records of `beforehand.reporting`, what the sending thread logs, and what is
     logged while a record is made into an event, pass by.
  3. It formats nothing but the message: no traceback, no formatter.

The event's name is the message; its attributes are `level` (trace, debug, info, warn, error or fatal: from error on,
the event counts as a failure in reports), `logger`, and `exception.type` and `exception.message` if there is one.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from beforehand.reporting.outbox import is_sending
from beforehand.reporting.reporter import Reporter

__all__ = ["ReportingHandler"]

_OWN: Final = "beforehand.reporting"
_LEVELS: Final = (
    (logging.CRITICAL, "fatal"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warn"),
    (logging.INFO, "info"),
    (logging.DEBUG, "debug"),
)


class _Local(threading.local):
    busy = False


class ReportingHandler(logging.Handler):
    """Reports log records to one reporter, which stays open when the handler is closed."""

    def __init__(self, reporter: Reporter, level: int | str = logging.NOTSET) -> None:
        super().__init__(level)
        self.failed = 0
        self._reporter: Final = reporter
        self._local: Final = _Local()

    def filter(self, record: logging.LogRecord) -> bool | logging.LogRecord:  # type: ignore[override]
        """Asked before the handler's lock is taken, so that the sending thread never waits for it."""
        name = str(record.name)
        own = name == _OWN or name.startswith(f"{_OWN}.")
        if own or is_sending() or self._local.busy:
            return False
        return super().filter(record)

    def emit(self, record: logging.LogRecord) -> None:
        self._local.busy = True
        try:
            attributes = {"level": _level(record.levelno), "logger": str(record.name)}
            if record.exc_info and record.exc_info[0] is not None:
                attributes["exception.type"] = record.exc_info[0].__qualname__
                attributes["exception.message"] = _text(record.exc_info[1])
            time = int(record.created * 1e9)
            self._reporter.event(_message(record), attributes=attributes, time=time)
        except Exception:  # noqa: BLE001 - A log line must not break the program, whatever its arguments do.
            self.failed += 1
        finally:
            self._local.busy = False


def _level(number: int) -> str:
    return next((name for least, name in _LEVELS if number >= least), "trace")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - Arguments that do not fit, or whose text raises.
        return f"{_text(record.msg)} (its arguments do not fit)"


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001
        return f"a {type(value).__name__} whose text raises {type(error).__name__}"
