"""Tokens, the audit log, and how the service does.

Making and revoking tokens is written to the audit log, with who did it; a token's text is in no log and is shown
once, in the answer that makes it.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from beforehand import __version__
from beforehand.service.http.access import Caller, needs, needs_nothing
from beforehand.service.http.errors import HttpError, as_json
from beforehand.service.http.questions import answered
from beforehand.service.http.schemas import ERRORS, described, listed
from beforehand.service.served import Served
from beforehand.service.tokens import SCOPES, Token, Tokens

__all__ = ["routes"]

_BODY_MAX: Final = 10_000
_ADMIN: Final = Depends(needs("admin"))


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    scope: str


def routes(served: Served) -> APIRouter:
    """Administration, and `/healthz`."""
    router = APIRouter(tags=["administration"])
    _health_of(router, served)
    _tokens_of(router, served)
    return router


def _health_of(router: APIRouter, served: Served) -> None:
    begun = time.monotonic()
    status_of = described(
        "How the service does",
        {"version": "text", "uptime_seconds": "number", "source": "text", "tokens_required": "flag"},
        {
            "events": "number",
            "processes": "number",
            "executions": "number",
            "waiting": "number",
            "rejected": "number",
            "cursor": "number",
            "bytes": "number",
            "memory_bytes_max": "number?",
        },
    )

    @router.get(
        "/healthz",
        summary="Whether the service is up",
        dependencies=[Depends(needs_nothing)],
        responses={200: described("It is", {"status": "text"})},
    )
    async def healthz() -> Response:
        """Open to all; says nothing else."""
        return as_json({"status": "ok"})

    @router.get(
        "/api/status",
        summary="How the service does",
        dependencies=[Depends(needs("read"))],
        responses={200: status_of, **ERRORS},
    )
    async def status() -> Response:
        """Counts of the store, and what the service takes."""

        def ask() -> dict[str, Any]:
            return {
                "version": __version__,
                "uptime_seconds": int(time.monotonic() - begun),
                "source": "directory" if served.store is None else "store",
                "tokens_required": served.needs_token,
                "memory_bytes_max": _memory(),
                **_counts(served),
            }

        return await answered(served, ask)

    @router.get(
        "/api/openapi.json",
        summary="This API, described",
        dependencies=[Depends(needs("read"))],
        responses={200: described("An OpenAPI document", {"openapi": "text", "paths": "object"}), **ERRORS},
    )
    async def openapi(request: Request) -> Response:
        """OpenAPI 3.1."""
        return await answered(served, request.app.openapi)


def _tokens_of(router: APIRouter, served: Served) -> None:
    made = described("The token; its text is shown this once", {"token": "text", "id": "text", "scope": "text"})
    tokens_of = described("All tokens, the revoked ones too", {"tokens": "objects"})

    def tokens() -> Tokens:
        if served.tokens is None:
            raise HttpError(409, "no tokens are kept here: serve a store")
        return served.tokens

    @router.get("/api/tokens", summary="All tokens", dependencies=[_ADMIN], responses={200: tokens_of, **ERRORS})
    async def list_tokens() -> Response:
        """Without their secrets, which are not known here."""
        return as_json({"tokens": [_shown(token) for token in tokens().list()]})

    @router.post(
        "/api/tokens",
        summary="Make a token",
        status_code=201,
        responses={201: made, **ERRORS},
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "scope": {"type": "string", "enum": list(SCOPES)},
                            },
                            "required": ["name", "scope"],
                        }
                    }
                },
            }
        },
    )
    async def add_token(request: Request, caller: Annotated[Caller, _ADMIN]) -> Response:
        """Where no token was needed, one is needed from now on: make one with the scope admin first."""
        kept = tokens()
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HttpError(415, "send the body as application/json")
        body = await request.body()
        try:
            wanted = msgspec.json.decode(body[:_BODY_MAX], type=_Wanted)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise HttpError(400, f'the body is not {{"name": ..., "scope": ...}}: {error}') from None
        if not kept.ever and wanted.scope != "admin":
            raise HttpError(409, "the first token needs the scope admin: nobody could make the next one otherwise")

        def add() -> dict[str, Any]:
            token, text = kept.add(wanted.name, wanted.scope)
            served.note(caller.name, "token made", f"{token.id} {token.scope} {token.name}")
            return {"token": text, **_shown(token)}

        return as_json(await served.work.write(add), 201)

    @router.delete("/api/tokens", summary="Revoke a token", responses={200: tokens_of, **ERRORS})
    async def revoke_token(
        id: Annotated[str, Query(description="The id of the token")],  # noqa: A002
        caller: Annotated[Caller, _ADMIN],
    ) -> Response:
        """It ends at once."""
        kept = tokens()
        if all(token.id != id for token in kept.list()):
            raise HttpError(404, f"there is no token {id[:40]!r}: GET /api/tokens lists them")

        def revoke() -> dict[str, Any]:
            token = kept.revoke(id)
            served.note(caller.name, "token revoked", f"{token.id} {token.scope} {token.name}")
            return {"tokens": [_shown(token)]}

        return as_json(await served.work.write(revoke))

    @router.get(
        "/api/audit",
        summary="What was administered",
        dependencies=[_ADMIN],
        responses={200: listed("entries", "The newest first"), **ERRORS},
    )
    async def audit(
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
        before: Annotated[int | None, Query(ge=0, le=2**62, description="The cursor of the last answer")] = None,
    ) -> Response:
        """When (`at`, nanoseconds since 1970), `who`, `what` and `detail`."""
        kept = served.audit
        if kept is None:
            raise HttpError(409, "no audit log is kept here: serve a store")
        return await answered(served, lambda: kept.entries(limit=limit, before=before))


def _shown(token: Token) -> dict[str, Any]:
    return asdict(token)


def _counts(served: Served) -> dict[str, Any]:
    if served.store is None:
        return {}
    with served.store.reading() as db:
        events, executions = db.execute("SELECT coalesce(sum(events), 0), count(*) FROM executions").fetchone()
        found = {"events": events, "executions": executions, "cursor": served.store.cursor}
        for table in ("processes", "waits", "rejected"):
            (found["waiting" if table == "waits" else table],) = db.execute(
                f"SELECT count(*) FROM {table}"  # noqa: S608
            ).fetchone()
        pages, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return {**found, "bytes": pages * size}


def _memory() -> int | None:
    """The most memory that the process had, in bytes: macOS says bytes, others kilobytes. None if nobody counts."""
    try:
        import resource
    except ImportError:  # Windows.
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
