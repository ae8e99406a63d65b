"""Results that arrive later."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Callable, Generic, List, Optional, TypeVar

from lmcache._installed import names_of

__all__ = ["MessagingFuture"]

T = TypeVar("T")


class MessagingFuture(Generic[T]):
    """Set once, by any thread; waited for by any number of threads."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: List[Callable[["MessagingFuture[T]"], Any]] = []
        self._result: Optional[T] = None
        self._error: Optional[BaseException] = None

    def query(self) -> bool:
        """Whether the result is there."""
        return self._done.is_set()

    done = query

    def wait(self, timeout: Optional[float] = None) -> bool:
        return self._done.wait(timeout)

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits; TimeoutError when it takes longer than ``timeout`` seconds."""
        if not self._done.wait(timeout):
            raise TimeoutError(f"no result within {timeout} s")
        if self._error is not None:
            raise self._error
        return self._result

    def set_result(self, result: T) -> None:
        self._finish(result, None)

    def set_exception(self, error: BaseException) -> None:
        self._finish(None, error)

    def add_done_callback(self, callback: Callable[["MessagingFuture[T]"], Any]) -> None:
        """Called with the future, at once when the result is already there."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def _finish(self, result: Optional[T], error: Optional[BaseException]) -> None:
        with self._lock:
            if self._done.is_set():
                return
            self._result, self._error = result, error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
