"""Lookups, their results, and the ends of sessions."""

from __future__ import annotations

from typing import Any, Optional

from lmcache._messages import members_of
from lmcache.v1.multiprocess.custom_types import (
    NO_SESSION_END_INFO,
    IPCCacheServerKey,
    SessionEndInfo,
)
from lmcache.v1.multiprocess.modules._builtin import BuiltinModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

__all__ = ["LookupModule"]


class LookupModule(BuiltinModule):
    stem = "lookup"

    @request_handler(HandlerType.BLOCKING)
    def lookup(self, key: IPCCacheServerKey, tp_size: int) -> None:
        """Starts a lookup; poll ``query_prefetch_status``. Locks what it finds."""
        manager = getattr(self.context, "session_manager", None)
        request_id = getattr(key, "request_id", None)
        session = None if manager is None else manager.get(request_id)
        if session is not None:  # somebody here follows the request
            session.lookup_ipc_key = key
        self._call("lookup", key, tp_size)

    @request_handler(HandlerType.BLOCKING)
    def query_prefetch_status(self, request_id: str) -> Optional[int]:
        """Chunks found, once; None while the lookup runs."""
        return self._call("query_prefetch_status", request_id)

    @request_handler(HandlerType.BLOCKING)
    def wait_prefetch_status(self, request_id: str, timeout: float) -> Optional[int]:
        """As ``query_prefetch_status``, after waiting for at most ``timeout`` seconds."""
        return self._call("wait_prefetch_status", request_id, timeout)

    @request_handler(HandlerType.BLOCKING)
    def query_prefetch_lookup_hits(self, request_id: str) -> Optional[int]:
        """Chunks found, without taking the result."""
        return self._call("query_prefetch_lookup_hits", request_id)

    @request_handler(HandlerType.BLOCKING)
    def free_lookup_locks(self, key: IPCCacheServerKey, tp_size: int) -> None:
        self._call("free_lookup_locks", key, tp_size)

    @request_handler(HandlerType.BLOCKING)
    def end_session(
        self, request_id: str, end_info: SessionEndInfo = NO_SESSION_END_INFO
    ) -> None:
        if end_info is None or end_info == NO_SESSION_END_INFO:
            self._call("end_session", request_id)
        else:
            self._call("end_session", request_id, _plain(end_info))


def _plain(end_info: Any) -> Any:
    if not isinstance(end_info, SessionEndInfo):
        return end_info
    return {name: value for name, value in members_of(end_info).items() if value is not None}
