"""A program with an unmodified OpenTelemetry SDK: two services, three calls; what it records goes to a service.

python opentelemetry_program.py URL
"""

from __future__ import annotations

import logging
import sys

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode


def provider(url: str, service: str) -> TracerProvider:
    made = TracerProvider(resource=Resource({"service.name": service}))
    exporter = OTLPSpanExporter(f"{url}v1/traces", compression=Compression.Gzip)
    made.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=2))
    return made


def main(url: str) -> None:
    web, cart = provider(url, "web"), provider(url, "cart")
    logs = LoggerProvider(resource=Resource({"service.name": "cart"}))
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{url}v1/logs")))
    logger = logging.getLogger("cart")
    logger.addHandler(LoggingHandler(logger_provider=logs))
    tracer, other = web.get_tracer("web"), cart.get_tracer("cart")
    with tracer.start_as_current_span("checkout") as root:
        for number in range(3):
            with tracer.start_as_current_span(f"POST /add {number}", kind=SpanKind.CLIENT) as call:
                headers: dict[str, str] = {}
                propagate.inject(headers)
                context = propagate.extract(headers)
                with other.start_as_current_span("add", context=context, kind=SpanKind.SERVER) as served:
                    with other.start_as_current_span("query"):
                        logger.warning("stock is low")
                    if number == 2:
                        served.set_status(Status(StatusCode.ERROR, "out of stock"))
                        call.set_status(Status(StatusCode.ERROR))
        root.set_status(Status(StatusCode.ERROR, "no checkout"))
    logger.warning("outside of any span")
    for one in (cart, web, logs):
        one.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
