"""Registered subscriptions: kept in the store, so they and their cursors survive the end of the service.

1. `cursor` is a place in the journal: what lies behind it was delivered, or was not meant. It moves forward only.
   Notices are made from the journal when they are sent, so nothing waits in memory, and a subscriber that stays away
   costs nothing; what retention removes meanwhile is told as a gap.
2. Of a webhook the service moves the cursor, after each answer that took a notice. Of other subscriptions the client
   does, by saying on its return which one it had last.
3. The secret of a webhook is in the store as it is, for each notice is signed with it; it is shown once, when the
   subscription is made. Whoever can read the file of the store can read it, as all that was reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final

from beforehand.errors import InputError
from beforehand.service.store import Store
from beforehand.service.subscriptions.addresses import parse_target
from beforehand.service.subscriptions.interests import Interest

__all__ = ["SUBSCRIPTIONS_MAX", "Subscription", "Subscriptions"]

SUBSCRIPTIONS_MAX: Final = 1_000
"""Subscriptions of one store."""

_NAME_MAX: Final = 200
_ERROR_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One of them. Times are nanoseconds since 1970."""

    id: str
    name: str
    owner: str  # The id of the token that made it.
    interest: Interest
    url: str | None  # Of a webhook; None: a client comes for its notices.
    created: int
    cursor: int
    sent: int = 0  # Notices that were taken.
    failures: int = 0  # Attempts in a row that failed.
    retry: int = 0  # Not tried before.
    error: str | None = None  # Why the last attempt failed.
    stopped: bool = False  # The receiver said that it is gone (410): nothing more is sent.
    secret: str | None = field(default=None, repr=False)

    def document(self) -> dict[str, Any]:
        """What is shown of it: all but its secret."""
        return {
            "id": self.id,
            "name": self.name,
            "where": self.interest.where,
            "past": self.interest.past,
            "completeness": self.interest.completeness,
            "execution": self.interest.execution,
            "url": self.url,
            "created": self.created,
            "cursor": self.cursor,
            "sent": self.sent,
            "failures": self.failures,
            "error": self.error,
            "stopped": self.stopped,
        }


class Subscriptions:
    """Of one store. Any thread may call any method."""

    def __init__(self, store: Store, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._store: Final = store
        self._clock: Final = clock

    def add(
        self,
        interest: Interest,
        *,
        name: str = "",
        owner: str = "local",
        url: str | None = None,
        after: int | None = None,
    ) -> Subscription:
        """A new one, from now on or from a cursor on. Its `secret`, of a webhook, is not to be seen again."""
        if len(name) > _NAME_MAX or not name.isprintable():
            raise InputError(f"name of a subscription: at most {_NAME_MAX} printable characters")
        if url is not None:
            parse_target(url)
        with self._store.transaction() as db:
            (newest,) = db.execute("SELECT coalesce(max(seq), 0) FROM journal").fetchone()
            if after is not None and not 0 <= after <= newest:
                raise InputError(f"after={after}: the last change of this store is {newest}")
            (count,) = db.execute("SELECT count(*) FROM subscriptions").fetchone()
            if count >= SUBSCRIPTIONS_MAX:
                raise InputError(f"there are {SUBSCRIPTIONS_MAX} subscriptions already: remove one first")
            made = Subscription(
                id=f"sub-{token_hex(6)}",
                name=name,
                owner=owner,
                interest=interest,
                url=url,
                created=self._clock(),
                cursor=newest if after is None else after,
                secret=None if url is None else token_hex(32),
            )
            values = (made.id, name, owner, interest.where, interest.past, interest.completeness, interest.execution)
            db.execute(
                "INSERT INTO subscriptions VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, NULL, 0)",
                (*values, url, made.secret, made.created, made.cursor),
            )
        return made

    def get(self, identity: str) -> Subscription | None:
        """The one with this id, if there is one."""
        with self._store.reading() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM subscriptions WHERE id = ?", (identity,)).fetchone()  # noqa: S608
        return None if row is None else _subscription(row)

    def list(self) -> list[Subscription]:
        """All of them, the oldest first."""
        with self._store.reading() as db:
            rows = db.execute(f"SELECT {_COLUMNS} FROM subscriptions ORDER BY created, id").fetchall()  # noqa: S608
        return [_subscription(row) for row in rows]

    def remove(self, identity: str) -> bool:
        """Whether there was one."""
        with self._store.transaction() as db:
            return db.execute("DELETE FROM subscriptions WHERE id = ?", (identity,)).rowcount > 0

    def advance(self, identity: str, cursor: int, *, sent: int = 0) -> None:
        """All up to `cursor` was taken, `sent` notices among it; an earlier failure is over."""
        with self._store.transaction() as db:
            sql = """
                UPDATE subscriptions SET cursor = max(cursor, ?), sent = sent + ?, failures = 0, retry = 0,
                error = NULL WHERE id = ?"""
            db.execute(sql, (cursor, sent, identity))

    def fail(self, identity: str, error: str, retry: int, *, stop: bool = False) -> None:
        """An attempt failed: try again at `retry`, or never."""
        with self._store.transaction() as db:
            sql = "UPDATE subscriptions SET failures = failures + 1, retry = ?, error = ?, stopped = ? WHERE id = ?"
            db.execute(sql, (retry, error[:_ERROR_MAX], int(stop), identity))


_COLUMNS: Final = """
    id, name, owner, "where", past, completeness, execution, url, secret, created, cursor, sent, failures, retry,
    error, stopped"""


def _subscription(row: tuple[Any, ...]) -> Subscription:
    identity, name, owner, where, past, completeness, execution, url, secret, created, cursor, *rest = row
    sent, failures, retry, error, stopped = rest
    return Subscription(
        id=identity,
        name=name,
        owner=owner,
        interest=Interest.stored(where, past, completeness, execution),
        url=url,
        created=created,
        cursor=cursor,
        sent=sent,
        failures=failures,
        retry=retry,
        error=error,
        stopped=bool(stopped),
        secret=secret,
    )
