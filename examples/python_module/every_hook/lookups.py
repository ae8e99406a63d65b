"""An operation of the protocol taken over: counted, then left to the server's own module."""

from __future__ import annotations

import threading
from typing import Any, Dict

from every_hook.base import Base
from lmcache.v1.multiprocess.custom_types import IPCCacheServerKey
from lmcache.v1.multiprocess.engine_module import ModuleBuildContext
from lmcache.v1.multiprocess.modules.lookup import LookupModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler


class CountingLookups(Base):
    # Built after it; require() finds it.
    module_dependencies = [LookupModule]

    def __init__(self, build_ctx: ModuleBuildContext) -> None:
        super().__init__(build_ctx)
        self._inner = build_ctx.require(LookupModule)
        self._lock = threading.Lock()
        self._lookups: Dict[str, int] = {}

    @classmethod
    def create(cls, build_ctx: ModuleBuildContext) -> CountingLookups:
        return cls(build_ctx)

    # The annotations are checked against the protocol when the server starts.
    @request_handler(HandlerType.BLOCKING)
    def lookup(self, key: IPCCacheServerKey, tp_size: int) -> None:
        with self._lock:
            self._lookups[key.model_name] = self._lookups.get(key.model_name, 0) + 1
        self._inner.lookup(key, tp_size)

    def report_status(self) -> Dict[str, Any]:
        with self._lock:
            return {"every_hook_lookups": {"is_healthy": True, "by_model": dict(self._lookups)}}
