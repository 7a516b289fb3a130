"""Subscriptions over HTTP: make, list and remove them, and follow their notices as server-sent events.

Whoever may read may follow, registered or not, and sees and removes its own subscriptions. Webhooks make the service
call others, so making, seeing and removing them needs `admin`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from beforehand.service.http.access import Caller, needs, still_may
from beforehand.service.http.errors import HttpError, as_json
from beforehand.service.http.questions import answered
from beforehand.service.http.schemas import ERRORS, described
from beforehand.service.http.streams import STREAMS_MAX, EventStream, Streams
from beforehand.service.served import Served
from beforehand.service.store import Store
from beforehand.service.subscriptions import Bell, Following, Interest, Subscription, Subscriptions

__all__ = ["routes"]

_BODY_MAX: Final = 100_000
_NUMBER_MAX: Final = 2**62
_STREAM: Final[dict[str, Any]] = {
    "description": "Server-sent events: `notice`, and `gap` where notices may be lacking; the id is the cursor",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}
_SHOWN: Final = {
    "id": "text",
    "name": "text",
    "where": "text?",
    "past": "number",
    "completeness": "text",
    "execution": "text?",
    "url": "text?",
    "created": "number",
    "cursor": "number",
    "sent": "number",
    "failures": "number",
    "error": "text?",
    "stopped": "flag",
}
_Reader = Annotated[Caller, Depends(needs("read"))]
_After = Annotated[int | None, Query(ge=0, le=_NUMBER_MAX, description="The cursor of the last notice")]


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    where: str | None = None
    past: int = 25
    completeness: str = "complete"
    execution: str | None = None
    name: str = ""
    url: str | None = None
    after: int | None = None


_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "where": {"type": ["string", "null"]},
                        "past": {"type": "integer", "minimum": 0, "maximum": 1000},
                        "completeness": {"type": "string", "enum": ["complete", "immediate"]},
                        "execution": {"type": ["string", "null"]},
                        "name": {"type": "string"},
                        "url": {"type": ["string", "null"]},
                        "after": {"type": ["integer", "null"], "minimum": 0},
                    },
                    "additionalProperties": False,
                }
            }
        },
    }
}


def routes(served: Served) -> APIRouter:
    """Subscribing."""
    router = APIRouter(tags=["subscriptions"])
    kept: Subscriptions | None = served.subscriptions
    store = served.store
    if kept is None or store is None:
        _refuse_all(router)
        return router
    _registered(router, served, kept)
    _streams(router, served, kept, store)
    return router


def _registered(router: APIRouter, served: Served, kept: Subscriptions) -> None:
    @router.get(
        "/api/subscriptions",
        summary="One's subscriptions",
        responses={200: described("The oldest first", {"subscriptions": "objects"}), **ERRORS},
    )
    async def list_subscriptions(caller: _Reader) -> Response:
        """Of the caller; with the scope admin, all."""

        def ask() -> dict[str, Any]:
            return {"subscriptions": [one.document() for one in kept.list() if _may(caller, one)]}

        return await answered(served, ask)

    @router.post(
        "/api/subscriptions",
        summary="Subscribe",
        status_code=201,
        responses={201: described("The subscription", _SHOWN, {"secret": "text"}), **ERRORS},
        openapi_extra=_BODY,
    )
    async def add_subscription(request: Request, caller: _Reader) -> Response:
        """All keys may be left out. With `url` it is a webhook: its `secret` is shown this once."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HttpError(415, "send the body as application/json")
        body = await request.body()
        if len(body) > _BODY_MAX:
            raise HttpError(413, f"a subscription of more than {_BODY_MAX} bytes")
        try:
            wanted = msgspec.json.decode(body, type=_Wanted)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HttpError(400, f"the body is no subscription: {error}") from None
        if wanted.url is not None and not caller.may("admin"):
            raise HttpError(403, "a webhook needs a token with the scope admin: it makes the service call others")

        def add() -> dict[str, Any]:
            interest = Interest(
                where=wanted.where,
                past=wanted.past,
                completeness=wanted.completeness,
                execution=wanted.execution,
            )
            made = kept.add(interest, name=wanted.name, owner=caller.id, url=wanted.url, after=wanted.after)
            if made.url is not None:
                served.note(caller.name, "webhook made", f"{made.id} {made.url}")
            return {**made.document(), **({} if made.secret is None else {"secret": made.secret})}

        return as_json(await served.work.write(add), 201)

    @router.delete(
        "/api/subscriptions",
        summary="Unsubscribe",
        responses={200: described("What was removed", {"removed": "text"}), **ERRORS},
    )
    async def remove_subscription(
        id: Annotated[str, Query(description="The id of the subscription")],  # noqa: A002
        caller: _Reader,
    ) -> Response:
        """Nothing more is sent."""

        def remove() -> dict[str, str]:
            found = _found(kept, id, caller)
            kept.remove(found.id)
            if found.url is not None:
                served.note(caller.name, "webhook removed", f"{found.id} {found.url}")
            return {"removed": found.id}

        return as_json(await served.work.write(remove))


def _streams(router: APIRouter, served: Served, kept: Subscriptions, store: Store) -> None:
    streams = Streams(Bell(store))

    def opened(following: Following, holds: Callable[[], bool]) -> EventStream:
        if streams.open >= STREAMS_MAX:
            raise HttpError(503, f"{STREAMS_MAX} streams are open: close one, or come back later")
        following.check()
        return EventStream(served, streams, following, holds=holds)

    @router.get("/api/subscriptions/{id}/events", summary="Follow a subscription", responses={200: _STREAM, **ERRORS})
    async def follow(
        request: Request,
        id: Annotated[str, Path(description="The id of the subscription")],  # noqa: A002
        caller: _Reader,
        after: _After = None,
    ) -> Response:
        """From `Last-Event-ID`, else `after`, else where the subscription stands. A cursor that is given moves it."""
        last = _last_id(request, after)
        found = await served.work.read(_found, kept, id, caller)
        if found.url is not None:
            raise HttpError(409, f"{found.id} is a webhook: its notices are posted to {found.url}")
        following = Following(
            store, found.interest, after=found.cursor if last is None else last, subscription=found.id
        )
        stream = opened(following, lambda: still_may(request, "read") and kept.get(found.id) is not None)
        if last is not None and last > found.cursor:
            await served.work.write(kept.advance, found.id, last)
        return stream

    @router.get("/api/stream", summary="Follow without registering", responses={200: _STREAM, **ERRORS})
    async def stream(
        request: Request,
        _: _Reader,
        where: Annotated[str | None, Query(description="A predicate, such as: attributes.level = error")] = None,
        past: Annotated[int, Query(ge=0, le=1_000)] = 25,
        completeness: Annotated[str, Query(description="complete or immediate")] = "complete",
        execution: Annotated[str | None, Query(description="Only this execution")] = None,
        after: _After = None,
    ) -> Response:
        """From `Last-Event-ID`, else `after`, else from now on."""
        # In a thread: patterns take a while to compile.
        interest = await served.work.read(
            Interest, where=where, past=past, completeness=completeness, execution=execution
        )
        last = _last_id(request, after)
        following = Following(store, interest, after=store.cursor if last is None else last)
        return opened(following, lambda: still_may(request, "read"))


def _may(caller: Caller, one: Subscription) -> bool:
    return caller.may("admin") or (one.owner == caller.id and one.url is None)


def _found(kept: Subscriptions, identity: str, caller: Caller) -> Subscription:
    found = kept.get(identity)
    if found is None or not _may(caller, found):
        raise HttpError(404, f"there is no subscription {identity[:40]!r}: GET /api/subscriptions lists them")
    return found


def _last_id(request: Request, after: int | None) -> int | None:
    text = request.headers.get("last-event-id")
    if text is None:
        return after
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise HttpError(400, f"Last-Event-ID {text[:40]!r} is no cursor: give the id of the last notice")
    return int(text)


def _refuse_all(router: APIRouter) -> None:
    """A history directory does not change: there is nothing to follow."""
    reader = [Depends(needs("read"))]

    async def refuse() -> Response:
        raise HttpError(409, "there is nothing to subscribe to here: serve a store")

    for path in ("/api/subscriptions", "/api/stream"):
        router.add_api_route(path, refuse, methods=["GET"], dependencies=reader, responses={**ERRORS})
