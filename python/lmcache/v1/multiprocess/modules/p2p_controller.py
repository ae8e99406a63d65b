"""Reads of one server's objects by another. Does nothing until it is configured."""

from __future__ import annotations

from typing import Dict, List, Optional

from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.transfer_channel.api import TransferChannelAddress
from lmcache.v1.multiprocess.modules._builtin import BuiltinModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

__all__ = ["P2PController"]


class P2PController(BuiltinModule):
    stem = "p2p_controller"

    @request_handler(HandlerType.BLOCKING)
    def p2p_lookup_and_lock(
        self, keys: List[ObjectKey], group_layout_descs: Dict[int, MemoryLayoutDesc]
    ) -> int:
        return self._call("p2p_lookup_and_lock", keys, group_layout_descs)

    @request_handler(HandlerType.BLOCKING)
    def p2p_query_lookup_results(self, task_id: int) -> Optional[List[TransferChannelAddress]]:
        result = self._call("p2p_query_lookup_results", task_id)
        return result["addresses"] if isinstance(result, dict) else result

    @request_handler(HandlerType.BLOCKING)
    def p2p_unlock_objects(self, keys: List[ObjectKey]) -> None:
        self._call("p2p_unlock_objects", keys)
