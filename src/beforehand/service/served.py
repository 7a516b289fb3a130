"""What an app serves: a store and its writer, or a history directory; and everything that its routes need.

Routes take all they need from one `Served`. A part that is None is not served: its routes answer 404 or 409 in one
line. `Questions` is what `Queries` answers of a store, and what a directory answers likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import Any, Final, Protocol

from beforehand.events import Event, EventId
from beforehand.predicate import Predicate
from beforehand.service.audit import Audit
from beforehand.service.http.limits import Limits
from beforehand.service.ingest import Ingest
from beforehand.service.store import Store
from beforehand.service.tokens import Tokens
from beforehand.service.work import Work

__all__ = ["LOOPBACK_NAMES", "Hosts", "Questions", "Served"]

Document = dict[str, Any]
Named = EventId | str | Event

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Questions(Protocol):
    """The methods of `Queries`, with its meanings and its JSON keys."""

    def find(
        self,
        where: Predicate | None = None,
        *,
        limit: int = 50,
        execution: str | None = None,
        after: str | None = None,
    ) -> Document: ...

    def order(self, *, limit: int = 1_000, execution: str | None = None, after: str | None = None) -> Document: ...

    def event(self, event: Named) -> Document: ...

    def past(
        self,
        event: Named,
        *,
        last: int = 25,
        where: Predicate | None = None,
        process: str | None = None,
        complete: bool = False,
    ) -> Document: ...

    def future(self, event: Named, *, limit: int = 50, after: str | None = None) -> Document: ...

    def concurrent(self, event: Named, *, limit: int = 50, after: str | None = None) -> Document: ...

    def relate(self, first: Named, second: Named) -> Document: ...

    def cut_at(self, time: int, *, execution: str | None = None) -> Document: ...

    def cut_after(self, *events: Named) -> Document: ...

    def cut(self, cut: Mapping[str, int], *, execution: str | None = None) -> Document: ...

    def checks(self, *, execution: str | None = None, delta_ns: int | None = None, limit: int = 100) -> Document: ...

    def missing(self, *, execution: str | None = None) -> Document: ...

    def rejected(self, *, limit: int = 100, after: int = 0) -> Document: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """By which names the service may be called, and whether callers need a token there."""

    names: frozenset[str] | None = LOOPBACK_NAMES  # In lower case, without a port. None: any name.
    tokens_required: bool = False  # Bound elsewhere than to loopback, called by other names, or asked for.


@dataclass(slots=True, kw_only=True)
class Served:
    """`make_app` turns it into an app. Whoever makes the parts closes them."""

    queries: Questions
    store: Store | None = None
    ingest: Ingest | None = None
    views: Any = None  # service/views
    subscriptions: Any = None  # service/subscriptions
    collector: Any = None  # service/otlp.py
    imports: Any = None  # service/imports.py
    tokens: Tokens | None = None
    audit: Audit | None = None
    hosts: Hosts = field(default_factory=Hosts)
    limits: Limits = field(default_factory=Limits)
    work: Work = field(init=False)
    stopping: Flag = field(default_factory=Flag)  # Set when the service ends: streams are to end by themselves.

    def __post_init__(self) -> None:
        self.work = Work(self.limits)

    @property
    def needs_token(self) -> bool:
        """Once a token was made, it is needed everywhere, and stays needed when it was revoked."""
        return self.hosts.tokens_required or (self.tokens is not None and self.tokens.ever)

    def note(self, who: str, what: str, detail: str = "") -> None:
        """For the audit log, where there is one. It writes to a disk: call it from a thread."""
        if self.audit is not None:
            self.audit.note(who, what, detail)
