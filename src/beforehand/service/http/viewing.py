"""What the page draws, over HTTP: overview, windows, where an event is, how it is related, two executions compared.

Each route asks one method of `Viewer`, in a thread, within `Limits.read_seconds_max`. `source` names an imported file
instead of what the service serves.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Response

from beforehand.errors import InputError
from beforehand.service.http.access import needs
from beforehand.service.http.errors import HttpError
from beforehand.service.http.questions import Source, answered, named
from beforehand.service.http.schemas import ERRORS, described
from beforehand.service.served import Served
from beforehand.service.views import Viewer
from beforehand.service.views.lanes import Axis
from beforehand.service.views.viewer import COLUMNS_MAX, EVENTS_DEFAULT, EVENTS_MAX

__all__ = ["routes", "viewer_of"]

_PLACE_MAX: Final = 2**53
_LANES_MAX: Final = 100_000

_Execution = Annotated[str | None, Query(description="Which execution; empty: the one without a name")]
_Axis = Annotated[Axis | None, Query(description="time, or steps; time if any event has one")]
_Lanes = Annotated[str | None, Query(description="Numbers of lanes, such as 0,3,4; all if left out")]
_Id = Annotated[str, Query(description="An event, process:index")]

_PLACED: Final = {"source": "text", "execution": "text", "origin": "text", "unit": "number"}


def viewer_of(served: Served, source: str | None) -> Viewer:
    """Who draws a source. `HttpError` 404 if there is none like that."""
    if source is None or source in ("store", "directory"):
        if served.views is None:
            raise HttpError(409, "this service draws nothing")
        main: Viewer = served.views
        return main
    if served.imports is None:
        raise HttpError(404, f"there is no source {source[:40]!r} here")
    found: Viewer = served.imports.viewer(source)
    return found


def routes(served: Served) -> APIRouter:
    """All views; they need the scope `read`."""
    router = APIRouter(tags=["views"], dependencies=[Depends(needs("read"))])
    _pictures_of(router, served)
    _events_of(router, served)
    return router


def _pictures_of(router: APIRouter, served: Served) -> None:
    overview_of = described(
        "Executions, and the lanes of one", {"source": "text", "executions": "objects", "processes": "objects"}
    )
    window_of = described("Events, or counts per column", {**_PLACED, "detail": "text", "total": "number"})

    @router.get("/api/overview", summary="What there is to draw", responses={200: overview_of, **ERRORS})
    async def overview(execution: _Execution = None, source: Source = None, axis: _Axis = None) -> Response:
        """The executions, newest first, and the lanes of one: of the newest, if none is named."""
        viewer = viewer_of(served, source)
        return await answered(served, lambda: viewer.overview(execution, axis))

    @router.get("/api/window", summary="A part of the picture", responses={200: window_of, **ERRORS})
    async def window(
        execution: _Execution = None,
        first: Annotated[int, Query(alias="from", ge=-_PLACE_MAX, le=_PLACE_MAX)] = 0,
        last: Annotated[int | None, Query(alias="to", ge=-_PLACE_MAX, le=_PLACE_MAX)] = None,
        columns: Annotated[int, Query(ge=1, le=COLUMNS_MAX)] = 1_200,
        lanes: _Lanes = None,
        events_max: Annotated[int, Query(ge=0, le=EVENTS_MAX)] = EVENTS_DEFAULT,
        source: Source = None,
        axis: _Axis = None,
    ) -> Response:
        """Events one by one while they are at most `events_max`, else counts per column."""
        viewer = viewer_of(served, source)
        chosen = _lanes(lanes)
        return await answered(
            served,
            lambda: viewer.window(
                execution, first=first, last=last, columns=columns, lanes=chosen, events_max=events_max, axis=axis
            ),
        )


def _events_of(router: APIRouter, served: Served) -> None:
    place_of = described("Where it is", {**_PLACED, "id": "text", "lane": "number", "index": "number", "x": "number"})
    relations_of = described("Per lane, its past and its future", {**_PLACED, "id": "text", "lanes": "objects"})
    compared = described(
        "What both have and what only one has", {"first": "object", "second": "object", "processes": "objects"}
    )

    @router.get("/api/lookup", summary="Where an event is", responses={200: place_of, **ERRORS})
    async def lookup(
        id: _Id,  # noqa: A002
        execution: _Execution = None,
        source: Source = None,
        axis: _Axis = None,
    ) -> Response:
        """Its lane and its place on the axis."""
        viewer = viewer_of(served, source)
        return await answered(served, lambda: viewer.lookup(named(id, execution), axis))

    @router.get("/api/relations", summary="How an event relates to others", responses={200: relations_of, **ERRORS})
    async def relations(
        id: _Id,  # noqa: A002
        execution: _Execution = None,
        lanes: _Lanes = None,
        source: Source = None,
        axis: _Axis = None,
    ) -> Response:
        """Per lane the last event in its past and the first in its future; all between are concurrent."""
        viewer = viewer_of(served, source)
        chosen = _lanes(lanes)
        return await answered(served, lambda: viewer.relations(named(id, execution), chosen, axis))

    @router.get("/api/compare", summary="Two executions compared", responses={200: compared, **ERRORS})
    async def compare(
        first: Annotated[str, Query(description="An execution")],
        second: Annotated[str, Query(description="Another one")],
        source: Source = None,
        source2: Annotated[str | None, Query(description="Of the second; the same, if left out")] = None,
    ) -> Response:
        """Per process, the steps that both have in the same order, and those that only one has."""
        viewer = viewer_of(served, source)
        other = viewer if source2 is None else viewer_of(served, source2)
        return await answered(served, lambda: viewer.compare(first, second, other))


def _lanes(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part for part in text.split(",", _LANES_MAX) if part]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(f"lanes are numbers like 0,3,4, not {text[:40]!r}")
    return [int(part) for part in parts]
