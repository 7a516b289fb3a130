"""`POST /api/imports`: a file that is dropped on the page becomes a history that can be asked, for a while.

The body is the file as it is; `name` is what it is called. The guard bounds it (`Limits.import_bytes_max`) and
refuses pages of other origins. Nothing lasting is stored, so `read` is enough.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query, Request, Response

from beforehand.service.http.access import needs
from beforehand.service.http.errors import HttpError, as_json
from beforehand.service.http.reports import read_body
from beforehand.service.http.schemas import ERRORS, described
from beforehand.service.imports import WAITING_MAX
from beforehand.service.served import Served

__all__ = ["routes"]

THREADS_MAX: Final = WAITING_MAX + 4


def routes(served: Served) -> APIRouter:
    """One route; it needs the scope `read`."""
    router = APIRouter(tags=["imports"], dependencies=[Depends(needs("read"))])
    imported = described(
        "Ask for it by `source`",
        {"source": "text", "format": "text", "events": "number", "rejected": "number", "findings": "texts"},
    )
    threads = CapacityLimiter(THREADS_MAX)  # More than wait: one more is refused, not kept waiting.
    body = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}

    @router.post(
        "/api/imports",
        summary="Import a file, for a while",
        responses={200: imported, **ERRORS},
        openapi_extra={"requestBody": body},
    )
    async def take(
        request: Request,
        name: Annotated[str, Query(max_length=1_000, description="What the file is called")] = "the file",
        format: Annotated[str | None, Query(max_length=40, description="Its format, if it cannot be told")] = None,  # noqa: A002
    ) -> Response:
        """Any format that the analysis reads, told by the content."""
        if served.imports is None:
            raise HttpError(409, "this service imports nothing")
        content = await read_body(request)
        taken = partial(served.imports.take, name, content, chosen=format)
        return as_json(await run_sync(taken, limiter=threads))

    return router
