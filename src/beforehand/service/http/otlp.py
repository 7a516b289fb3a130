"""`POST /v1/traces` and `/v1/logs`: OTLP/HTTP, so that an unmodified OpenTelemetry SDK or collector can report here.

Source: opentelemetry-proto, docs/specification.md, OTLP/HTTP. JSON or protobuf, gzipped or not; the answer is of the
kind of the request.

    200  all is kept; or all but what `partial_success` counts, which must not be sent again
    400  nothing of it can be read: it must not be sent again
    413  it is too large, or has too many records: likewise
    503  too much waits: it is to be sent again, after `Retry-After`

An error has the `Status` message that OTLP asks for; in JSON it has our own `error` too. Records are kept when the
answer is sent; they become events when their trace is quiet (service/otlp.py).
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from beforehand.errors import InputError
from beforehand.formats.spans.documents import ODD_FIELD
from beforehand.service.http.access import Caller, needs
from beforehand.service.http.errors import HttpError, error_line
from beforehand.service.http.reports import decompressed
from beforehand.service.http.schemas import ERRORS
from beforehand.service.otlp import Collected, Collector, LargeError
from beforehand.service.served import Served
from beforehand.service.work import BusyError

__all__ = ["routes"]

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_KINDS: Final = {_PROTOBUF: _PROTOBUF, "application/protobuf": _PROTOBUF, _JSON: _JSON}
_MESSAGE_MAX: Final = 500
_CODES: Final = {400: 3, 413: 3, 415: 3, 409: 9, 503: 14}  # Of google.rpc.Code.
_ANSWER: Final[dict[str, Any]] = {
    "description": "Kept; `partialSuccess` counts what is not",
    "content": {
        _JSON: {"schema": {"type": "object", "properties": {"partialSuccess": {"type": "object"}}}},
        _PROTOBUF: {"schema": {"type": "string"}},
    },
}
_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {_JSON: {"schema": {"type": "object"}}, _PROTOBUF: {"schema": {"type": "string"}}},
    }
}


def routes(served: Served) -> APIRouter:
    """OpenTelemetry."""
    router = APIRouter(tags=["reporting"])

    @router.post("/v1/traces", summary="Report spans", responses={200: _ANSWER, **ERRORS}, openapi_extra=_BODY)
    async def traces(request: Request, _: Annotated[Caller, Depends(needs("report"))]) -> Response:
        """An OTLP `ExportTraceServiceRequest`."""
        return await _export(served, request, "rejectedSpans")

    @router.post("/v1/logs", summary="Report log records", responses={200: _ANSWER, **ERRORS}, openapi_extra=_BODY)
    async def logs(request: Request, _: Annotated[Caller, Depends(needs("report"))]) -> Response:
        """An OTLP `ExportLogsServiceRequest`."""
        return await _export(served, request, "rejectedLogRecords")

    return router


async def _export(served: Served, request: Request, counted: str) -> Response:
    kind = _KINDS.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())
    try:
        if kind is None:
            raise HttpError(415, f"OTLP comes as {_PROTOBUF} or {_JSON}: set Content-Type to one of them")
        collected = await _taken(served, request, kind)
    except HttpError as error:
        return _failed(error, kind or _JSON)
    except BusyError as error:
        return _failed(HttpError(503, str(error)), kind or _JSON)
    if not collected.rejections:
        return Response(b"" if kind == _PROTOBUF else b"{}", media_type=kind)
    # Of a record with an odd field only that field is lost: it is told, and not counted, as OTLP asks.
    refused = sum(one.reason != ODD_FIELD for one in collected.rejections)
    first = min(collected.rejections, key=lambda one: one.reason == ODD_FIELD)
    message = f"{refused} were refused, the first: {first.detail}" if refused else first.detail
    return Response(_partial(refused, error_line(message)[:_MESSAGE_MAX], kind, counted), media_type=kind)


async def _taken(served: Served, request: Request, kind: str) -> Collected:
    collector: Collector | None = served.collector
    if collector is None:
        raise HttpError(409, "a history directory is served here, which takes no reports: serve a store")
    encoding = request.headers.get("content-encoding", "").strip().lower()
    body = await request.body()
    if not body and not encoding and kind == _PROTOBUF:
        return Collected([], [])  # A message without any field.

    def prepared() -> Collected:
        # Unpacked it may have no more than packed: small records take long to read, and pack well.
        content = decompressed(body, encoding, served.limits.body_bytes_max)
        return collector.read(content) if content or kind == _JSON else Collected([], [])

    try:
        collected = await served.work.prepare(prepared)
    except LargeError as error:
        raise HttpError(413, str(error)) from None
    if collected.is_unreadable:
        raise HttpError(400, f"no span and no log record can be read: {collected.rejections[0].detail}")
    try:
        await served.work.write(collector.keep, collected)
    except InputError as error:  # The store was closed meanwhile.
        raise HttpError(503, str(error)) from None
    return collected


def _partial(refused: int, message: str, kind: str, counted: str) -> bytes:
    if kind == _JSON:
        return msgspec.json.encode({"partialSuccess": {counted: str(refused), "errorMessage": message}})
    return _field(1, b"\x08" + _varint(refused) + _field(2, message.encode("utf-8", "replace")))


def _failed(error: HttpError, kind: str) -> Response:
    line = error_line(error.text)
    code = _CODES.get(error.status, 2)
    if kind == _JSON:
        body = msgspec.json.encode({"code": code, "message": line, "error": line})
    else:
        body = b"\x08" + _varint(code) + _field(2, line.encode("utf-8", "replace"))
    return Response(body, error.status, error.headers, media_type=kind)


def _field(number: int, data: bytes) -> bytes:
    """A field with a length, in protobuf."""
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
