"""Events of the server, counted on its /metrics."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping

from every_hook.base import Base
from lmcache.v1.mp_observability.event import Event, EventType
from lmcache.v1.mp_observability.event_bus import EventSubscriber
from lmcache.v1.mp_observability.metrics import Counter
from lmcache.v1.multiprocess.engine_module import ModuleBuildContext


class StoreSubscriber(EventSubscriber):
    """Its callbacks run on the bus's one thread, in the order of the events."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self.seen = 0

    def get_subscriptions(self) -> Mapping[Any, Callable[[Event], Any]]:
        return {EventType.MP_STORE_END: self._on_store}

    def _on_store(self, event: Event) -> None:
        self.seen += 1
        self._counter.add(1, str(event.metadata.get("model_name", "")))


class StoreCounter(Base):
    def __init__(self, build_ctx: ModuleBuildContext) -> None:
        super().__init__(build_ctx)
        # /metrics: lmcached_module_store_counter_stores_total{model="..."}
        counter = Counter(self, "stores_total", "Stores that ended.", label="model")
        self._subscriber = StoreSubscriber(counter)
        self.context.event_bus.register_subscriber(self._subscriber)

    @classmethod
    def create(cls, build_ctx: ModuleBuildContext) -> StoreCounter:
        return cls(build_ctx)

    def report_status(self) -> Dict[str, Any]:
        return {"every_hook_stores": {"is_healthy": True, "seen": self._subscriber.seen}}
