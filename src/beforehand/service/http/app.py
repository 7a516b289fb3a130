"""The app: all routes, behind the guard.

`make_app(served)` gives an ASGI app. Whoever serves it opens and closes the parts of `served`. FastAPI's own pages
are off, for they load code from elsewhere; the OpenAPI document is a route like others (`/api/openapi.json`).

A route that says neither which scope it needs nor that it is open to all is a bug, found when the app is made.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from beforehand import __version__
from beforehand.errors import InvariantError
from beforehand.service.http import (
    administration,
    exporting,
    importing,
    otlp,
    paging,
    questions,
    reports,
    subscribing,
    viewing,
)
from beforehand.service.http.access import scope_of
from beforehand.service.http.errors import add_handlers
from beforehand.service.http.guard import Guard
from beforehand.service.served import Served

__all__ = ["make_app", "routers", "scope_of_route"]


def make_app(served: Served) -> FastAPI:
    """All routes of what is served."""
    app = FastAPI(
        title="Beforehand",
        summary="The event reporting service: reports in, what led to what out.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.served = served
    add_handlers(app)
    for router in routers(served):
        for route in router.routes:
            if not isinstance(route, APIRoute) or scope_of_route(route) is None:
                raise InvariantError(f"the route {route!r} does not say who may call it")
        app.include_router(router)
    app.add_middleware(Guard, served=served)
    return app


def routers(served: Served) -> Iterator[APIRouter]:
    """The routes, group by group."""
    for room in (administration, reports, otlp, questions, exporting, subscribing, viewing, importing, paging):
        yield room.routes(served)


def scope_of_route(route: APIRoute) -> str | None:
    """What its callers need: a scope, or `open`; None if it does not say."""
    found = [scope_of(dependency.call) for dependency in route.dependant.dependencies]
    return next((scope for scope in found if scope is not None), None)
