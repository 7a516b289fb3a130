"""What becomes of errors: `{"error": "one line: what, where, what to do"}` with a status, never a traceback.

    400  a question or a report that cannot be read (`InputError`)      413  too large
    401  a token is needed     403  not allowed                         415  an unknown kind of content
    404  no such event, no such route                                   429  too many requests; Retry-After
    405  no such method        409  not served here                     503  busy, or cut off; Retry-After
    500  a bug of ours: said on the log with its traceback, and to the caller in one line (guard.py)

Routes raise `HttpError`, or let an error of the core pass.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from typing import Final

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from beforehand.errors import InputError, UnknownEventError
from beforehand.service.deadlines import OverdueError
from beforehand.service.work import BusyError

__all__ = ["HttpError", "add_handlers", "as_json", "error_body", "error_line"]

_log: Final = logging.getLogger("beforehand.service")
_LINE_MAX: Final = 1_000


class HttpError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status: Final = status
        self.text: Final = text
        self.headers: Final = dict(headers or {})
        if status == 401:
            self.headers.setdefault("WWW-Authenticate", 'Bearer realm="beforehand"')
        if status in (429, 503):
            self.headers.setdefault("Retry-After", "1")


def error_line(text: str) -> str:
    """What an error says. Text of strangers stands in it as text: quoted, in one line, UTF-8."""
    return " ".join(text.split())[:_LINE_MAX].encode("utf-8", "backslashreplace").decode()


def error_body(text: str) -> bytes:
    """The one shape of an error."""
    return msgspec.json.encode({"error": error_line(text)})


def as_json(document: object, status: int = 200) -> Response:
    """A document as an answer. Large ones are made in a thread: see `encoded`."""
    return Response(msgspec.json.encode(document), status, media_type="application/json")


def add_handlers(app: FastAPI) -> None:
    """Let every error become an answer of the one shape."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


def _answer(error: HttpError) -> Response:
    return Response(error_body(error.text), error.status, error.headers, media_type="application/json")


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return _answer(error)


async def _input(_: Request, error: Exception) -> Response:
    return _answer(HttpError(404 if isinstance(error, UnknownEventError) else 400, str(error)))


async def _busy(_: Request, error: Exception) -> Response:
    return _answer(HttpError(503, str(error)))


async def _invalid(_: Request, error: Exception) -> Response:
    """Parameters that FastAPI could not read: the first of them."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    return _answer(HttpError(400, f"{where}: {first['msg']}"))


async def _starlette(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = {
        404: f"there is no {request.url.path[:100]!r} here: /api/openapi.json lists what there is",
        405: f"{request.method[:20]} does not go with {request.url.path[:100]!r}",
    }.get(error.status_code, str(error.detail))
    return _answer(HttpError(error.status_code, text, error.headers))


async def _store(_: Request, error: Exception) -> Response:
    """The disk is full, or what is on it is broken: the caller may try again, and nothing was acknowledged."""
    if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
        raise error  # A wrong statement: a bug.
    _log.error("the store failed: %s", error)
    return _answer(HttpError(503, f"the store failed ({error}): nothing was done; try again later"))


_HANDLERS: Final = {
    HttpError: _http,
    InputError: _input,
    OverdueError: _busy,
    BusyError: _busy,
    RequestValidationError: _invalid,
    HTTPException: _starlette,
    sqlite3.DatabaseError: _store,
}
