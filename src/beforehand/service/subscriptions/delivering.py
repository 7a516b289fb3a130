"""Webhooks: notices are posted in order, one at a time per subscription, until each was taken.

1. At least once: the cursor moves when the receiver has taken a notice. If the service ends between the two, that one
   comes again, with the same cursor. None is left out, but for gaps that retention made, which are told.
2. A failure is tried again after a time that doubles, from `first_wait` to `longest_wait` seconds, with jitter, and
   not before the receiver's `Retry-After`. Meanwhile nothing of the subscription waits in memory: its cursor simply
   stays behind. 410 ends a subscription; it stays in the list, stopped.
3. A slow receiver takes one of `threads` for `seconds_max` at a time; all others go on in turn.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from beforehand.errors import InputError
from beforehand.service.store import Store
from beforehand.service.subscriptions.following import Following
from beforehand.service.subscriptions.posting import GONE, RETRY_AFTER_MAX, PostError, headers_of, post
from beforehand.service.subscriptions.registered import Subscription, Subscriptions

__all__ = ["Deliverer", "DeliverySettings"]

_log: Final = logging.getLogger("beforehand.service")
_TURN: Final = 20  # Notices of one subscription before the next one has its turn.
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """Of all webhooks."""

    allow_private: bool = False  # Targets on private, loopback and link-local addresses.
    seconds_max: float = 10.0  # For one notice, from the connection to the answer.
    first_wait: float = 1.0
    longest_wait: float = 300.0
    threads: int = 4
    look_every: float = 0.5  # Seconds; how often it is looked for new subscriptions and for retries that are due.

    def __post_init__(self) -> None:
        for name in ("seconds_max", "first_wait", "longest_wait", "look_every", "threads"):
            if not getattr(self, name) > 0:
                raise InputError(f"the setting {name} is {getattr(self, name)!r}: give a number above 0")


class Deliverer:
    """Posts what webhooks are owed, in threads of its own, from `start` to `close`."""

    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        *,
        settings: DeliverySettings | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings: Final = settings or DeliverySettings()
        self._store: Final = store
        self._subscriptions: Final = subscriptions
        self._clock: Final = clock
        self._stop: Final = threading.Event()
        self._lock: Final = threading.Lock()
        self._busy: set[str] = set()  # Subscriptions that a thread is at.
        self._seen: dict[str, int] = {}  # Up to where each was looked at; not all of it is in the store.
        self._pool: ThreadPoolExecutor | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._pool = ThreadPoolExecutor(self.settings.threads, thread_name_prefix="beforehand-webhook")
        self._thread = threading.Thread(target=self._run, name="beforehand-webhooks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the notices that are on their way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def deliver(self, subscription: Subscription) -> bool:
        """Post what a webhook is owed, a turn at most; whether there may be more to do now."""
        after = max(subscription.cursor, self._seen.get(subscription.id, 0))
        following = Following(
            self._store, subscription.interest, after=min(after, self._store.cursor), subscription=subscription.id
        )
        page = following.page(_TURN)
        for notice in page.notices:
            if self._stop.is_set():
                return False
            if not self._send(subscription, notice.cursor, notice.body):
                return False
            self._seen[subscription.id] = notice.cursor
            self._subscriptions.advance(subscription.id, notice.cursor, sent=1)
        self._seen[subscription.id] = page.cursor
        if page.cursor - max(subscription.cursor, *(notice.cursor for notice in page.notices), 0) >= _FAR:
            self._subscriptions.advance(subscription.id, page.cursor)  # Much was passed over: not again next time.
        return not page.held and page.cursor > after

    # Inside.

    def _run(self) -> None:
        heard = -1
        while not self._stop.is_set():
            try:
                self._look()
            except Exception:  # noqa: BLE001 (the thread serves all webhooks: it must not end)
                if self._stop.is_set():
                    return
                _log.exception("webhooks could not be looked at; it is tried again")
            heard = max(heard, self._store.cursor)
            self._store.wait(heard, timeout=self.settings.look_every)
            self._stop.wait(0.01)  # Changes come in crowds: one look for all of them.

    def _look(self) -> None:
        now, newest = self._clock(), self._store.cursor
        latest = int(max(self.settings.longest_wait, RETRY_AFTER_MAX) * _SECOND)  # Later: the clock was set back.
        listed = self._subscriptions.list()
        for gone in self._seen.keys() - {one.id for one in listed}:
            self._seen.pop(gone, None)
        due = [
            one
            for one in listed
            if one.url is not None
            and not one.stopped
            and not now < one.retry <= now + latest
            and (one.failures or max(one.cursor, self._seen.get(one.id, 0)) < newest)
        ]
        with self._lock:
            chosen = [one for one in due if one.id not in self._busy]
            self._busy.update(one.id for one in chosen)
        assert self._pool is not None
        for one in chosen:
            self._pool.submit(self._turn, one)

    def _turn(self, subscription: Subscription) -> None:
        try:
            while not self._stop.is_set() and self.deliver(subscription):
                fresh = self._subscriptions.get(subscription.id)
                if fresh is None or fresh.retry > self._clock():
                    return
                subscription = fresh
        except Exception:  # noqa: BLE001 (likewise)
            if not self._stop.is_set():
                _log.exception("the webhook of %s could not be served; it is tried again", subscription.id)
        finally:
            with self._lock:
                self._busy.discard(subscription.id)

    def _send(self, subscription: Subscription, cursor: int, body: bytes) -> bool:
        assert subscription.url is not None
        assert subscription.secret is not None
        seconds = self._clock() // _SECOND
        headers = headers_of(subscription.id, cursor, subscription.secret, seconds, body)
        settings = self.settings
        try:
            post(
                subscription.url,
                body,
                headers,
                seconds_max=settings.seconds_max,
                allow_private=settings.allow_private,
            )
        except PostError as error:
            current = self._subscriptions.get(subscription.id)
            failures = 0 if current is None else current.failures
            wait = min(settings.first_wait * 2.0 ** min(failures, 30), settings.longest_wait)
            wait = max(wait * random.uniform(0.5, 1.0), error.retry_after)  # noqa: S311 (no secret)
            retry = self._clock() + int(wait * _SECOND)
            self._subscriptions.fail(subscription.id, str(error), retry, stop=error.status == GONE)
            return False
        return True


_FAR: Final = 1_000  # Changes that were passed over before that is written down.
