"""A call of gRPC that is not waited for and may have to be made a second time: the future that its caller gets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import grpc

__all__ = ["RepeatingFuture"]


class RepeatingFuture(grpc.Call, grpc.Future):  # type: ignore[misc]
    """The first attempt, or the second if the first was refused for its stamp."""

    def __init__(
        self,
        first: Any,
        *,
        is_refused: Callable[[Any], bool],
        repeat: Callable[[], Any],
        finish: Callable[[Any], None],
    ) -> None:
        """`repeat` makes the second attempt. `finish` is called with the first one if there is no second."""
        self._outcome = first
        self._is_refused: Final = is_refused
        self._repeat: Final = repeat
        self._finish: Final = finish
        self._lock: Final = threading.Lock()
        self._settled: Final = threading.Event()
        self._cancelled = False
        self._callbacks: list[Callable[[Any], object]] = []
        first.add_done_callback(self._first_done)

    def _first_done(self, first: Any) -> None:
        if self._is_refused(first) and not self._is_cancelled():
            try:
                second = self._repeat()
            except (
                BaseException
            ):  # A policy, say: the full stamp is too large. Nobody shall wait for what never comes.
                self._settle(first)
                raise
            self._outcome = second
            if self._is_cancelled():  # Perhaps it could cancel the first attempt only.
                second.cancel()
            second.add_done_callback(self._settle)
            return
        try:
            self._finish(first)
        finally:
            self._settle(first)

    def _is_cancelled(self) -> bool:
        return self._cancelled

    def _settle(self, _: Any) -> None:
        with self._lock:
            self._settled.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def _final(self, timeout: float | None = None) -> Any:
        if not self._settled.wait(timeout):
            raise grpc.FutureTimeoutError
        return self._outcome

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        with self._lock:
            if not self._settled.is_set():
                self._callbacks.append(fn)
                return
        fn(self)

    def cancel(self) -> Any:
        self._cancelled = True
        return self._outcome.cancel()

    def cancelled(self) -> Any:
        return self._outcome.cancelled()

    def running(self) -> bool:
        return not self._settled.is_set()

    def done(self) -> bool:
        return self._settled.is_set()

    def result(self, timeout: float | None = None) -> Any:
        return self._final(timeout).result()

    def exception(self, timeout: float | None = None) -> Any:
        return self._final(timeout).exception()

    def traceback(self, timeout: float | None = None) -> Any:
        return self._final(timeout).traceback()

    def initial_metadata(self) -> Any:
        return self._final().initial_metadata()

    def trailing_metadata(self) -> Any:
        return self._final().trailing_metadata()

    def code(self) -> Any:
        return self._final().code()

    def details(self) -> Any:
        return self._final().details()

    def is_active(self) -> bool:
        return not self._settled.is_set()

    def time_remaining(self) -> Any:
        return self._outcome.time_remaining()

    def add_callback(self, callback: Callable[[], object]) -> bool:
        """False if the call is over: then it is not called."""
        with self._lock:
            if self._settled.is_set():
                return False
            self._callbacks.append(lambda _: callback())
            return True
