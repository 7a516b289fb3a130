"""Who calls, and whether they may: the dependency that every route of the API has.

    @router.get("/api/status", dependencies=[Depends(needs("read"))])
    async def status(caller: Annotated[Caller, Depends(needs("admin"))]) -> Response: ...

1. Where no token is needed (loopback, no token ever made) the caller is `LOCAL` and may do all; the guard has seen to
   it that the request comes from no foreign page. A token that is given is looked at all the same: a wrong one is
   refused, so that nobody believes in it.
2. Else a token is needed: 401 without one or with one that does not hold, 403 if its scope does not do. `admin` does
   for all; `report` and `read` do not include each other.
3. `OPEN` routes (the page's files, `/healthz`) say so by `needs_nothing`; a test goes over all routes of the app and
   fails for one that has neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from beforehand.service.http.errors import HttpError
from beforehand.service.served import Served
from beforehand.service.tokens import Scope, Token

__all__ = ["LOCAL", "Caller", "needs", "needs_nothing", "scope_of", "still_may"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls."""

    id: str  # Of the token; `local` where none is needed.
    name: str  # For people and for the audit log.
    token: Token | None = None

    def may(self, scope: Scope) -> bool:
        return self.token is None or self.token.allows(scope)


LOCAL: Final = Caller("local", "local")


def needs(scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: the caller, if it may do what has this scope."""
    return _NEEDS[scope]


async def needs_nothing() -> None:
    """A dependency that says: this route is open to all, on purpose."""


def caller_of(served: Served, authorization: str | None) -> Caller:
    """The caller by its header `Authorization`; `HttpError` 401 if it has to say more."""
    if authorization is None:
        if served.needs_token:
            raise HttpError(401, "a token is needed: send the header Authorization: Bearer TOKEN")
        return LOCAL
    kind, _, text = authorization.partition(" ")
    if kind.lower() != "bearer":
        raise HttpError(401, "the header Authorization is not read: send Authorization: Bearer TOKEN")
    token = None if served.tokens is None else served.tokens.check(text.strip())
    if token is None:
        raise HttpError(401, "the token does not hold: it is wrong, or was revoked")
    return Caller(token.id, f"token {token.name} ({token.id})", token)


class _Needs:
    """FastAPI asks it per request; `scope` is for those who look at routes."""

    def __init__(self, scope: Scope) -> None:
        self.scope: Final = scope

    async def __call__(self, request: Request) -> Caller:
        return self.caller(request)

    def caller(self, request: Request) -> Caller:
        caller = caller_of(request.app.state.served, request.headers.get("authorization"))
        if not caller.may(self.scope):
            has = caller.token.scope if caller.token is not None else "none"
            raise HttpError(403, f"the token has the scope {has}: this needs {self.scope}")
        return caller


_NEEDS: Final[dict[Scope, _Needs]] = {scope: _Needs(scope) for scope in ("report", "read", "admin")}


def still_may(request: Request, scope: Scope) -> bool:
    """Whether the caller of a request that goes on may still do this: tokens are revoked meanwhile."""
    try:
        _NEEDS[scope].caller(request)
    except HttpError:
        return False
    return True


def scope_of(call: object) -> str | None:
    """The scope that a dependency asks for: `open`, one of the scopes, or None if it is no matter of access."""
    if isinstance(call, _Needs):
        return call.scope
    return "open" if call is needs_nothing else None
