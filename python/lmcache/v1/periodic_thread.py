"""Threads that do something again and again."""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from lmcache._installed import names_of
from lmcache.logging import init_logger

__all__ = ["PeriodicThread", "ThreadLevel", "ThreadRunSummary", "create_periodic_thread"]

_logger = init_logger(__name__)


class ThreadLevel(enum.Enum):
    """How much depends on the thread."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass
class ThreadRunSummary:
    """What one round did."""

    success: bool = True
    message: str = ""


class PeriodicThread:
    """Calls a function every ``interval`` seconds until it is stopped; a round that raises is
    logged and counted, and the next one runs all the same."""

    def __init__(
        self,
        name: str,
        interval: float,
        execute_fn: Callable[[], Any],
        level: ThreadLevel = ThreadLevel.MEDIUM,
    ) -> None:
        self.name = name
        self.interval = interval
        self.level = level
        self.total_runs = 0
        self.failed_runs = 0
        self.last_summary: Optional[ThreadRunSummary] = None
        self._execute = execute_fn
        self._stopped = threading.Event()
        self._thread: Optional[threading.Thread] = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> threading.Thread:
        if self._thread is None or not self._thread.is_alive():
            self._stopped.clear()
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        return self._thread

    def stop(self, timeout: Optional[float] = 5.0) -> bool:
        """Whether the thread ended within ``timeout`` seconds."""
        self._stopped.set()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def get_status(self) -> Dict[str, Any]:
        last = self.last_summary
        return {
            "name": self.name,
            "level": self.level.value,
            "interval": self.interval,
            "is_running": self.is_running,
            "total_runs": self.total_runs,
            "failed_runs": self.failed_runs,
            "last_success": None if last is None else last.success,
            "last_message": None if last is None else last.message,
        }

    def _run(self) -> None:
        while not self._stopped.wait(self.interval):
            try:
                summary = self._execute()
            except Exception as failure:
                _logger.exception("a round of thread %s failed", self.name)
                summary = ThreadRunSummary(False, str(failure))
            self.total_runs += 1
            if isinstance(summary, ThreadRunSummary):
                self.last_summary = summary
                self.failed_runs += not summary.success


def create_periodic_thread(
    name: str,
    interval: float,
    execute_fn: Callable[[], Any],
    level: ThreadLevel = ThreadLevel.MEDIUM,
) -> PeriodicThread:
    return PeriodicThread(name, interval, execute_fn, level)


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
