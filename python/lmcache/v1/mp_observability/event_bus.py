"""Publishing and receiving events.

Inside the server ``get_event_bus()`` is the server's bus. Elsewhere it is one of this process, so
that plugin code can be tested.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from lmcache import _bridge
from lmcache._installed import names_of
from lmcache.logging import init_logger
from lmcache.v1.mp_observability.event import Event, event_name, event_type_of

__all__ = ["EventBus", "EventBusConfig", "EventCallback", "EventSubscriber", "get_event_bus"]

EventCallback = Callable[[Event], Any]
_logger: logging.Logger = init_logger(__name__)


@dataclass
class EventBusConfig:
    enabled: bool = True
    max_queue_size: int = 10_000


class EventSubscriber(ABC):
    """Receives several event types; ``shutdown`` when the bus has stopped."""

    @abstractmethod
    def get_subscriptions(self) -> Mapping[Any, EventCallback]:
        """Event types and their callbacks."""

    def shutdown(self) -> None:
        return None


class EventBus:
    """Callbacks run on one background thread in the order of publishing; one that raises is
    logged and the others still run. Any thread may publish; none ever waits."""

    def __init__(self, config: Optional[EventBusConfig] = None) -> None:
        self._config = config or EventBusConfig()
        self._lock = threading.Lock()
        self._callbacks: Dict[str, List[EventCallback]] = {}
        self._subscribers: List[Any] = []
        self._queue: "queue.Queue[Optional[Event]]" = queue.Queue(self._config.max_queue_size)
        self._thread: Optional[threading.Thread] = None
        self.dropped = 0

    def subscribe(self, event_type: Any, callback: EventCallback) -> None:
        with self._lock:
            self._callbacks.setdefault(event_name(event_type), []).append(callback)

    def register_subscriber(self, subscriber: Any) -> None:
        """Subscribes everything of ``get_subscriptions()``."""
        for event_type, callback in subscriber.get_subscriptions().items():
            self.subscribe(event_type, callback)
        with self._lock:
            self._subscribers.append(subscriber)

    def has_subscribers(self, event_type: Any) -> bool:
        with self._lock:
            return bool(self._callbacks.get(event_name(event_type)))

    def publish(self, event: Event) -> None:
        """Sets ``event.timestamp``. Dropped when nobody has subscribed or the queue is full."""
        event.timestamp = time.time()
        if not self._config.enabled or not self.has_subscribers(event.event_type):
            return
        self.start()
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self.dropped += 1

    def start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="lmcache-event-bus", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Delivers what is queued, then shuts the subscribers down."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()
        self.shut_subscribers_down()

    def shut_subscribers_down(self) -> None:
        with self._lock:
            subscribers, self._subscribers = self._subscribers, []
        for subscriber in subscribers:
            shutdown = getattr(subscriber, "shutdown", None)
            try:
                if shutdown is not None:
                    shutdown()
            except Exception:
                _logger.exception("shutdown of %s failed", type(subscriber).__name__)

    def _run(self) -> None:
        while True:
            event = self._queue.get()
            if event is None:
                return
            with self._lock:
                callbacks = list(self._callbacks.get(event_name(event.event_type), ()))
            for callback in callbacks:
                try:
                    callback(event)
                except Exception:
                    _logger.exception("a callback for event %s failed", event.event_type)


class _ServerEventBus(EventBus):
    """The bus of the server; its threads, queue and counters are the server's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers = []

    def subscribe(self, event_type: Any, callback: EventCallback) -> None:
        name = event_name(event_type)
        server = _bridge.host("the event bus")
        if not server.has_bus():
            _logger.warning("There are no events: the server runs with --disable-observability")
            return
        kind = event_type_of(name)

        def deliver(_name: str, session: str, metadata: Dict[str, Any], timestamp: float) -> None:
            callback(Event(kind, session, metadata, timestamp))

        server.subscribe(name, deliver, getattr(callback, "__module__", None) or "python")

    def has_subscribers(self, event_type: Any) -> bool:
        return _bridge.host("the event bus").has_subscribers(event_name(event_type))

    def publish(self, event: Event) -> None:
        timestamp = _bridge.host("the event bus").publish(
            event_name(event.event_type), event.session_id or "", event.metadata or {}
        )
        event.timestamp = time.time() if timestamp is None else timestamp

    @property
    def dropped(self) -> int:  # type: ignore[override]
        return _bridge.host("the event bus").events_dropped()

    def start(self) -> None:
        """The server starts it."""

    def stop(self) -> None:
        """The server stops it."""


_bus: Optional[EventBus] = None
_bus_lock = threading.Lock()


def get_event_bus() -> EventBus:
    global _bus
    with _bus_lock:
        if _bus is None:
            _bus = _ServerEventBus() if _bridge.INSIDE else EventBus()
        return _bus


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
