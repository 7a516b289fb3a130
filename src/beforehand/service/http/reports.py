"""`POST /api/events`: reports in. The contract is in docs/reference/reporting.md.

1. A body is JSON Lines (`application/x-ndjson`) or a JSON array (`application/json`) of native events, as it is or
   gzipped. What it says decompressed is bounded, and no more than that is ever decompressed.
2. An answer 200 means: all that it counts is in the store. `stored`, `repeated`, `conflicts` and the length of
   `rejected` make up what was sent (blank lines are nothing). Any other answer: nothing of the body is there.
3. An event is known by its (execution, process, index), so an event without an index is rejected here: a body that
   is sent again would number its events again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats import LIMITS_DEFAULT, Line, parse_native
from beforehand.formats.json_text import RefusedError
from beforehand.formats.unnumbered import quoted
from beforehand.service.http.access import Caller, needs
from beforehand.service.http.combining import Combined
from beforehand.service.http.errors import HttpError, as_json
from beforehand.service.http.schemas import ERRORS, RECEIPT
from beforehand.service.ingest import Receipt
from beforehand.service.served import Served

__all__ = ["INDEX_MISSING", "decompressed", "parsed", "read_body", "routes"]

INDEX_MISSING: Final = "index-missing"
_LINES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/json-lines"})
_ARRAY: Final = "application/json"
_DETAIL_MAX: Final = 300
_CHUNK: Final = 1 << 18
_MEMBERS_MAX: Final = 1_000
_COMMAS: Final = 100  # Of an event in an array, on average.
_decode_array: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


async def read_body(request: Request) -> bytes:
    """The whole body; the guard has bounded it. A client that goes away ends the request."""
    return await request.body()


def decompressed(body: bytes, encoding: str, most: int) -> bytes:
    """What a body says: `HttpError` 413 if it is too much, 415 for an unknown encoding, 400 if it is cut."""
    if encoding in ("", "identity"):
        if len(body) > most:
            raise HttpError(413, f"a body of more than {most} bytes: send less at once")
        return body
    if encoding != "gzip":
        raise HttpError(415, f"Content-Encoding {encoding[:40]!r} is not read: send gzip, or none")
    parts: list[bytes] = []
    size = at = members = 0
    try:
        while at < len(body):  # A body may hold several members, one after the other.
            members += 1
            if members > _MEMBERS_MAX:
                raise HttpError(413, f"more than {_MEMBERS_MAX} gzip members in a body: compress it as one")
            reader = zlib.decompressobj(wbits=31)
            while at < len(body) and not reader.eof:
                given = body[at : at + _CHUNK]  # Not all of it: what is left over is copied.
                parts.append(reader.decompress(given, min(_CHUNK, most - size + 1)))
                size += len(parts[-1])
                if size > most:
                    raise HttpError(413, f"a body of more than {most} bytes, decompressed: send less at once")
                at += len(given) - len(reader.unconsumed_tail) - len(reader.unused_data)
            if not reader.eof:
                raise HttpError(400, "the gzipped body is cut: send it whole")
    except zlib.error:
        raise HttpError(400, "the body is not gzip, which its Content-Encoding says") from None
    if not body:
        raise HttpError(400, "the gzipped body is empty")
    return b"".join(parts)


def parsed(content: bytes, kind: str, events_max: int) -> list[Event | Rejection]:
    """The reports of a body, each an event or why it is none."""
    if kind in _LINES:
        if content.count(b"\n") > 2 * events_max:
            raise HttpError(413, f"more than {events_max} lines: send less at once")
        lines: Iterable[bytes] = (line for line in content.split(b"\n") if line and not line.isspace())
    elif kind == _ARRAY:
        if content.count(b",") > _COMMAS * events_max:  # Each may begin another element, which takes memory.
            raise HttpError(413, f"a larger array than {events_max} events are: send less at once")
        try:
            lines = [bytes(raw) for raw in _decode_array(content)]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HttpError(400, f"the body is no JSON array of events: {error}") from None
    else:
        raise HttpError(
            415, f"Content-Type {kind[:80]!r} is not read: send application/x-ndjson (lines) or {_ARRAY} (an array)"
        )
    found: list[Event | Rejection] = []
    for at, data in enumerate(lines):
        if at == events_max:
            raise HttpError(413, f"more than {events_max} events: send less at once")
        found.append(_report(at, data))
    return found


def answer_of(receipt: Receipt) -> dict[str, Any]:
    """The answer of the contract; `cursor` is the number of the last change."""
    return {
        "stored": receipt.stored,
        "repeated": receipt.repeated,
        "conflicts": receipt.conflicts,
        "rejected": [{"at": one.at, "reason": one.reason, "detail": _fit(one.detail)} for one in receipt.refused],
        "waiting": receipt.waiting,
        "cursor": receipt.cursor,
    }


def _report(at: int, data: bytes) -> Event | Rejection:
    try:
        # Not at offset 0, where a byte order mark would be passed over: these are not the lines of a file.
        found = parse_native(Line(1, data), limits=LIMITS_DEFAULT)
        if found is None or found.index is None:
            raise RefusedError(INDEX_MISSING, "the event has no index: number the events of a process, from 1")
        return found.numbered(found.index)
    except RefusedError as refused:
        text = quoted(data, limits=LIMITS_DEFAULT)
        return Rejection(reason=refused.reason, detail=str(refused), line=at + 1, text=text)


def _fit(detail: str) -> str:
    return detail[:_DETAIL_MAX].encode("utf-8", "backslashreplace").decode()


def routes(served: Served) -> APIRouter:
    """Reporting."""
    router = APIRouter(tags=["reporting"])
    ingest, store = served.ingest, served.store
    combined = None
    events_max = 0
    if ingest is not None and store is not None:
        events_max = store.settings.batch_events_max
        combined = Combined(
            ingest,
            served.work,
            events_max=events_max,
            waiting_max=served.limits.writes_waiting_max,
            waiting_bytes_max=served.limits.bodies_bytes_max,
        )

    @router.post(
        "/api/events",
        summary="Report events",
        response_class=Response,
        responses={200: RECEIPT, **ERRORS},
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/x-ndjson": {"schema": {"type": "string"}},
                    "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
                },
            }
        },
    )
    async def report(request: Request, _: Annotated[Caller, Depends(needs("report"))]) -> Response:
        """Native events as JSON Lines or as a JSON array, gzipped or not. A body may be sent again at any time."""
        if combined is None:
            raise HttpError(409, "a history directory is served here, which takes no reports: serve a store")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in _LINES and kind != _ARRAY:
            raise HttpError(
                415,
                f"Content-Type {kind[:80]!r} is not read: send application/x-ndjson (lines) or {_ARRAY} (an array)",
            )
        encoding = request.headers.get("content-encoding", "").strip().lower()

        with combined.coming():
            body = await read_body(request)

            def prepared() -> tuple[list[Event | Rejection], int]:
                content = decompressed(body, encoding, served.limits.content_bytes_max)
                return parsed(content, kind, events_max), len(content)

            reports, size = await served.work.prepare(prepared)
        try:
            receipt = await combined.report(reports, size=size)
        except InputError as error:  # The store was closed meanwhile.
            raise HttpError(503, str(error)) from None
        return as_json(answer_of(receipt))

    return router
