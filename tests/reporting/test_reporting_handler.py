"""Log records as events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

import pytest
from gated_target import GatedTarget

from beforehand.reporting import Reporter, ReportingHandler

MINUTE = 60.0


@pytest.fixture
def target() -> GatedTarget:
    return GatedTarget(is_open=True)


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("shop.cart")
    made.setLevel(1)
    yield made
    for handler in list(made.handlers):
        made.removeHandler(handler)
    made.setLevel(logging.NOTSET)


def test_a_record_becomes_an_event_with_its_level_and_exception(target: GatedTarget, logger: logging.Logger) -> None:
    with Reporter(target, process="p") as reporter:
        logger.addHandler(ReportingHandler(reporter))
        try:
            raise ConnectionError("stock is away")
        except ConnectionError:
            logger.exception("checkout %d failed", 7)
    (event,) = target.events()
    assert event["name"] == "checkout 7 failed"
    assert event["attributes"] == {
        "level": "error",
        "logger": "shop.cart",
        "exception.type": "ConnectionError",
        "exception.message": "stock is away",
    }


def test_levels_are_those_that_the_pipeline_knows(target: GatedTarget, logger: logging.Logger) -> None:
    with Reporter(target, process="p") as reporter:
        logger.addHandler(ReportingHandler(reporter))
        for level in (5, 10, 20, 25, 30, 40, 50, 99):
            logger.log(level, "said")
    levels = [event["attributes"]["level"] for event in target.events()]  # type: ignore[index]
    assert levels == ["trace", "debug", "info", "info", "warn", "error", "fatal", "fatal"]


def test_errors_in_the_log_are_failures_for_the_pipeline(target: GatedTarget, logger: logging.Logger) -> None:
    import pyarrow as pa

    from beforehand.pipeline.tables import failures_in

    with Reporter(target, process="p") as reporter:
        logger.addHandler(ReportingHandler(reporter))
        for level in (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
            logger.log(level, "said")
    rows = [list(event["attributes"].items()) for event in target.events()]  # type: ignore[attr-defined]
    table = pa.table({"attributes": pa.array(rows, pa.map_(pa.string(), pa.string()))})
    assert failures_in(table).tolist() == [2, 3]


def test_the_level_of_the_handler_and_filters_of_others_hold(target: GatedTarget, logger: logging.Logger) -> None:
    with Reporter(target, process="p") as reporter:
        handler = ReportingHandler(reporter, "WARNING")
        handler.addFilter(lambda record: "secret" not in record.getMessage())
        logger.addHandler(handler)
        logger.info("below")
        logger.warning("a secret")
        logger.warning("shown")
    assert [event["name"] for event in target.events()] == ["shown"]


def test_the_time_is_that_of_the_record(target: GatedTarget) -> None:
    record = logging.makeLogRecord({"name": "shop", "msg": "late", "created": 1_700_000_000.5, "levelno": 20})
    with Reporter(target, process="p") as reporter:
        ReportingHandler(reporter).handle(record)
    assert target.events()[0]["time"] == 1_700_000_000_500_000_000


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("message", "arguments", "shown"),
    [
        ("%d", ("not a number",), "%d (its arguments do not fit)"),
        ("%s", (Hostile(),), "%s (its arguments do not fit)"),
        (Hostile(), (), "a Hostile whose text raises RuntimeError (its arguments do not fit)"),
        ("x" * 1500, (), "x" * 1000 + "… (1500 characters)"),
        ("\udcff\0", (), "\\udcff\0"),
    ],
)
def test_no_message_breaks_the_program_or_is_lost(
    target: GatedTarget, logger: logging.Logger, message: object, arguments: tuple[object, ...], shown: str
) -> None:
    with Reporter(target, process="p") as reporter:
        handler = ReportingHandler(reporter)
        logger.addHandler(handler)
        logger.propagate = False
        logger.error(message, *arguments)
        logger.propagate = True
    assert [event["name"] for event in target.events()] == [shown]
    assert handler.failed == 0


def test_a_record_that_cannot_be_reported_is_counted(target: GatedTarget) -> None:
    record = logging.makeLogRecord({"msg": "x", "created": "never"})
    with Reporter(target, process="p") as reporter:
        handler = ReportingHandler(reporter)
        handler.handle(record)
    assert (handler.failed, target.lines) == (1, [])


def test_it_does_not_report_about_reporting(caplog: pytest.LogCaptureFixture) -> None:
    names: list[str] = []
    calls = threading.Semaphore(0)

    def target(lines: Sequence[bytes]) -> None:
        logging.getLogger("somebody.else").error("logged while sending")
        logging.getLogger("beforehand.reporting").error("about ourselves")
        names.extend(line.decode() for line in lines)
        calls.release()

    root = logging.getLogger()
    reporter = Reporter(target, process="p", linger=0.0)
    handler = ReportingHandler(reporter)
    root.addHandler(handler)
    try:
        logging.getLogger("beforehand.reporting").error("about ourselves")
        logging.getLogger("beforehand.reporting.more").error("about ourselves")
        logging.getLogger("shop").error("one")
        assert calls.acquire(timeout=MINUTE)
        assert reporter.flush(MINUTE)
        assert reporter.close(MINUTE)
    finally:
        root.removeHandler(handler)
    assert len(names) == 1
    assert '"name":"one"' in names[0]


def test_what_is_logged_while_a_record_is_formatted_does_not_recurse(
    target: GatedTarget, logger: logging.Logger
) -> None:
    class Chatty:
        def __str__(self) -> str:
            logger.error("%s", Chatty())
            return "chatty"

    with Reporter(target, process="p") as reporter:
        handler = ReportingHandler(reporter)
        logger.addHandler(handler)
        logger.propagate = False
        logger.error("%s", Chatty())
        logger.propagate = True
    assert [event["name"] for event in target.events()] == ["chatty"]
