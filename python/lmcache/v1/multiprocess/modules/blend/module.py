"""Reuse of segments at other positions. Not part of this server yet: never built."""

from __future__ import annotations

from typing import List, Optional, Tuple

from lmcache.v1.multiprocess.custom_types import (
    CBMatchResult,
    CBUnifiedLookupResult,
    IPCCacheServerKey,
)
from lmcache.v1.multiprocess.modules._builtin import BuiltinModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

__all__ = ["BlendModule"]


class BlendModule(BuiltinModule):
    stem = "blend"

    @request_handler(HandlerType.BLOCKING)
    def cb_unified_lookup(
        self, key: IPCCacheServerKey, tp_size: int
    ) -> Optional[CBUnifiedLookupResult]:
        return self._call("cb_unified_lookup", key, tp_size, reply="cb_unified_lookup_payload")

    @request_handler(HandlerType.BLOCKING, requires_client_affinity=True)
    def cb_retrieve_pre_computed(
        self,
        key: IPCCacheServerKey,
        matches: List[CBMatchResult],
        block_ids: List[List[int]],
        instance_id: int,
        event_ipc_handle: bytes,
    ) -> Tuple[bytes, bool]:
        return self._call(
            "cb_retrieve_pre_computed", key, matches, block_ids, instance_id, event_ipc_handle
        )

    @request_handler(HandlerType.SYNC)
    def cb_protocol_handshake(self, client_version: int) -> Tuple[int, bool]:
        return self._call("cb_protocol_handshake", client_version)
