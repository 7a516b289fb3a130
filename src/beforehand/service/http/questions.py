"""The questions: what led to what, over HTTP. Same meaning and same JSON keys as the command line.

1. Each route asks one method of `Questions`, in a thread, within `Limits.read_seconds_max`; its document is encoded
   there too. A page holds at most `PAGE_MAX` events; `cursor` of an answer, given as `after`, goes on.
2. Events are named as on the command line, `process:index`, in the parameter `id`, for names hold any character.
   `execution` says of which execution, where a name alone would mean two events.
3. `source` names an imported file (`imp-...`) instead of what the service serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from beforehand.errors import InputError
from beforehand.events import INDEX_MAX, EventId, parse_time
from beforehand.formats.json_text import RefusedError, decode_json
from beforehand.predicate import Predicate
from beforehand.service.http.access import needs
from beforehand.service.http.errors import HttpError
from beforehand.service.http.schemas import ERRORS, described, listed
from beforehand.service.queries import PAGE_MAX
from beforehand.service.served import Questions, Served

__all__ = ["Source", "answered", "named", "questions_of", "routes"]

_NUMBER_MAX: Final = 2**62

Source = Annotated[str | None, Query(description="An imported file; what the service serves, if left out")]
_Execution = Annotated[str | None, Query(description="Which execution, if there are several")]
_Where = Annotated[str | None, Query(description="A predicate, such as: name ~ failed and process = cart")]
_After = Annotated[str | None, Query(description="The cursor of the last answer")]
_Id = Annotated[str, Query(description="An event, process:index")]
_Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


def questions_of(served: Served, source: str | None) -> Questions:
    """Who answers for a source. `HttpError` 404 if there is none like that."""
    if source is None or source in ("store", "directory"):
        return served.queries
    if served.imports is None:
        raise HttpError(404, f"there is no source {source[:40]!r} here")
    found: Questions = served.imports.questions(source)
    return found


async def answered(served: Served, ask: Callable[[], object]) -> Response:
    """The document that `ask` gives, asked and encoded in a thread."""

    def encoded() -> bytes:
        return msgspec.json.encode(ask())

    return Response(await served.work.read(encoded), media_type="application/json")


def _predicate(text: str | None) -> Predicate | None:
    return None if text is None else Predicate.parse(text)


def named(text: str, execution: str | None) -> EventId | str:
    """An event by its name; of one execution, if that is named."""
    if execution is None:
        return text
    process, _, digits = text.rpartition(":")
    if (
        not process
        or not digits.isascii()
        or not digits.isdigit()
        or len(digits) > 19
        or not 0 < int(digits) <= INDEX_MAX
    ):
        raise InputError(f"{text[:100]!r} is no event: one is named process:index, like cart:17")
    return EventId(execution, process, int(digits))


def _time(text: str) -> int:
    """RFC 3339, or nanoseconds since 1970."""
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) <= INDEX_MAX:
        return int(text)
    try:
        return parse_time(text)
    except ValueError as error:
        raise InputError(f"{error}; nanoseconds since 1970 will do too") from None


def _cut(text: str) -> dict[str, int]:
    try:
        given = decode_json(text.encode(), depth_max=4)
        found = msgspec.convert(given, type=dict[str, Annotated[int, msgspec.Meta(ge=0, le=INDEX_MAX)]])
    except (RefusedError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InputError(f'cut: {error}; give a JSON object like {{"cart": 17}}') from None
    return found


def routes(served: Served) -> APIRouter:
    """All questions; they need the scope `read`."""
    router = APIRouter(tags=["questions"], dependencies=[Depends(needs("read"))])
    _events_of(router, served)
    _precedence_of(router, served)
    _judgement_of(router, served)
    return router


def _events_of(router: APIRouter, served: Served) -> None:
    page = listed("events", "Events; with `more`, `cursor` goes on")
    one = described("The event", {"id": "text", "process": "text", "index": "number", "state": "text"})

    @router.get("/api/find", summary="Find events, newest first", responses={200: page, **ERRORS})
    async def find(
        where: _Where = None,
        limit: _Limit = 50,
        after: _After = None,
        execution: _Execution = None,
        source: Source = None,
    ) -> Response:
        """Newest means last in the causal order, whatever the clocks say."""
        asked = questions_of(served, source)
        return await answered(
            served, lambda: asked.find(_predicate(where), limit=limit, execution=execution, after=after)
        )

    @router.get("/api/order", summary="The deterministic order", responses={200: page, **ERRORS})
    async def order(
        limit: _Limit = 1_000, after: _After = None, execution: _Execution = None, source: Source = None
    ) -> Response:
        """Native events with `id`, oldest first, of one execution."""
        asked = questions_of(served, source)
        return await answered(served, lambda: asked.order(limit=limit, execution=execution, after=after))

    @router.get("/api/event", summary="One event and all that is known of it", responses={200: one, **ERRORS})
    async def event(id: _Id, execution: _Execution = None, source: Source = None) -> Response:  # noqa: A002
        """With its stamp, and the reports of it that differ (`conflicts`)."""
        asked = questions_of(served, source)
        return await answered(served, lambda: asked.event(named(id, execution)))


def _precedence_of(router: APIRouter, served: Served) -> None:
    past_of = described(
        "The past: how many events, and the last of them, oldest first",
        {"event": "text", "past": "number?", "events": "objects?"},
        {"state": "text", "complete": "flag", "missing": "texts", "unsent": "objects", "notes": "texts"},
    )
    future_of = listed("events", "What it could have led to", {"event": "text", "future": "number"})
    apart = listed("events", "What is neither before nor after it", {"event": "text", "concurrent": "number"})
    relation = described(
        "What the first is to the second", {"first": "text", "second": "text", "relation": "text", "chain": "texts"}
    )

    @router.get("/api/past", summary="What could have led to an event", responses={200: past_of, **ERRORS})
    async def past(
        id: _Id,  # noqa: A002
        last: Annotated[int, Query(ge=0, le=PAGE_MAX)] = 25,
        where: _Where = None,
        process: Annotated[str | None, Query(description="Only events of this process")] = None,
        complete: Annotated[bool, Query(description="Null instead of a past that is not complete")] = False,
        execution: _Execution = None,
        source: Source = None,
    ) -> Response:
        """`missing` names what is not reported yet."""
        asked = questions_of(served, source)

        def ask() -> dict[str, Any]:
            event = named(id, execution)
            return asked.past(event, last=last, where=_predicate(where), process=process, complete=complete)

        return await answered(served, ask)

    @router.get("/api/future", summary="What an event could have led to", responses={200: future_of, **ERRORS})
    async def future(
        id: _Id,  # noqa: A002
        limit: _Limit = 50,
        after: _After = None,
        execution: _Execution = None,
        source: Source = None,
    ) -> Response:
        """Of the events that have a stamp, oldest first."""
        asked = questions_of(served, source)
        return await answered(served, lambda: asked.future(named(id, execution), limit=limit, after=after))

    @router.get("/api/concurrent", summary="What is concurrent with an event", responses={200: apart, **ERRORS})
    async def concurrent(
        id: _Id,  # noqa: A002
        limit: _Limit = 50,
        after: _After = None,
        execution: _Execution = None,
        source: Source = None,
    ) -> Response:
        """Of the events that have a stamp, oldest first."""
        asked = questions_of(served, source)
        return await answered(served, lambda: asked.concurrent(named(id, execution), limit=limit, after=after))

    @router.get("/api/relate", summary="How two events relate", responses={200: relation, **ERRORS})
    async def relate(first: _Id, second: _Id, execution: _Execution = None, source: Source = None) -> Response:
        """`before`, `after`, `concurrent` or `equal`, with a causal chain."""
        asked = questions_of(served, source)
        return await answered(served, lambda: asked.relate(named(first, execution), named(second, execution)))


def _judgement_of(router: APIRouter, served: Served) -> None:
    cut_of = described(
        "The cut",
        {"cut": "object", "front": "texts", "in_flight": "texts", "unreceived": "texts", "consistent": "flag"},
    )
    checked = described(
        "What is violated", {"counts": "object", "judged": "object", "violations": "objects", "notes": "texts"}
    )
    lacking = described(
        "What is not here", {"missing": "texts", "unsent": "objects", "waiting": "number", "notes": "texts"}
    )
    refused = listed("rejected", "What was refused and why", {"dropped": "number"})

    @router.get("/api/cut", summary="A cut and the messages in flight across it", responses={200: cut_of, **ERRORS})
    async def cut(
        at: Annotated[str | None, Query(description="A time: the largest consistent cut before it")] = None,
        after: Annotated[list[str] | None, Query(description="Events: the smallest cut that has them")] = None,
        cut: Annotated[str | None, Query(description='A cut to describe, as JSON: {"cart": 17}')] = None,
        execution: _Execution = None,
        source: Source = None,
    ) -> Response:
        """Exactly one of `at`, `after` (may be repeated) and `cut`."""
        if sum(one is not None for one in (at, after, cut)) != 1:
            raise InputError("a cut is given by one of at, after and cut: give exactly one")
        asked = questions_of(served, source)

        def ask() -> dict[str, Any]:
            if at is not None:
                return asked.cut_at(_time(at), execution=execution)
            if after is not None:
                return asked.cut_after(*[named(event, execution) for event in after])
            return asked.cut(_cut(cut or ""), execution=execution)

        return await answered(served, ask)

    @router.get("/api/checks", summary="Violations of order, with witnesses", responses={200: checked, **ERRORS})
    async def checks(
        delta_ns: Annotated[int | None, Query(ge=0, le=_NUMBER_MAX, description="Judge temporal order too")] = None,
        limit: Annotated[int, Query(ge=0, le=PAGE_MAX)] = 100,
        execution: _Execution = None,
        source: Source = None,
    ) -> Response:
        """FIFO, causal and total order, and the reported clocks; of the newest events."""
        asked = questions_of(served, source)
        return await answered(served, lambda: asked.checks(execution=execution, delta_ns=delta_ns, limit=limit))

    @router.get("/api/missing", summary="What was not reported yet", responses={200: lacking, **ERRORS})
    async def missing(execution: _Execution = None, source: Source = None) -> Response:
        """Events and messages that others depend on."""
        asked = questions_of(served, source)
        return await answered(served, lambda: asked.missing(execution=execution))

    @router.get("/api/rejected", summary="What was refused and why", responses={200: refused, **ERRORS})
    async def rejected(
        limit: _Limit = 100,
        after: Annotated[int, Query(ge=0, le=_NUMBER_MAX, description="The cursor of the last answer")] = 0,
        source: Source = None,
    ) -> Response:
        """In the order in which it was."""
        asked = questions_of(served, source)
        return await answered(served, lambda: asked.rejected(limit=limit, after=after))
