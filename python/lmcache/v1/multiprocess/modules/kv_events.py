"""Replay of KV events for engines. Not part of this server yet: never built."""

from __future__ import annotations

from typing import Any

from lmcache.v1.multiprocess.modules._builtin import BuiltinModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

__all__ = ["KVEventModule"]


class KVEventModule(BuiltinModule):
    stem = "kv_events"

    @request_handler(HandlerType.BLOCKING)
    def poll_kv_events(self, model_name: str, cursor: int, max_events: int) -> Any:
        return self._call("poll_kv_events", model_name, cursor, max_events)
