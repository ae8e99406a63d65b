"""State for each worker, which lives as long as the worker pings."""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List

from every_hook.base import Base
from lmcache.v1.multiprocess.engine_module import InstanceLivenessTarget, ModuleBuildContext


class WorkerNotes(Base, InstanceLivenessTarget):
    """These four methods make it a target; the base class only has defaults for them."""

    def __init__(self, build_ctx: ModuleBuildContext) -> None:
        super().__init__(build_ctx)
        self._lock = threading.Lock()
        self._seen: Dict[int, float] = {}

    @classmethod
    def create(cls, build_ctx: ModuleBuildContext) -> WorkerNotes:
        return cls(build_ctx)

    def touch_instance(self, instance_id: int) -> None:
        with self._lock:
            self._seen[instance_id] = time.monotonic()

    def reap_stale_instances(
        self, reap_timeout_s: float, registration_grace_s: float
    ) -> List[int]:
        limit = time.monotonic() - reap_timeout_s
        with self._lock:
            stale = [one for one, seen in self._seen.items() if seen < limit]
            for one in stale:
                del self._seen[one]
        return stale

    def tracked_instance_count(self) -> int:
        with self._lock:
            return len(self._seen)

    def drop_instance_state(self, instance_id: int) -> None:
        with self._lock:
            self._seen.pop(instance_id, None)

    def report_status(self) -> Dict[str, Any]:
        return {"every_hook_workers": {"is_healthy": True, "tracked": self.tracked_instance_count()}}
