"""Storage of query tensors. Not part of this server yet: never built."""

from __future__ import annotations

from typing import List, Tuple

from lmcache.utils import EngineType
from lmcache.v1.kv_format.types import LayoutHints
from lmcache.v1.multiprocess.custom_types import DeviceIPCWrapper, IPCCacheServerKey
from lmcache.v1.multiprocess.group_view import EngineGroupInfo
from lmcache.v1.multiprocess.modules._builtin import BuiltinModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

__all__ = ["QStoreModule"]


class QStoreModule(BuiltinModule):
    stem = "qstore"

    @request_handler(HandlerType.SYNC)
    def register_q_cache(
        self,
        instance_id: int,
        q_cache: List[DeviceIPCWrapper],
        model_name: str,
        world_size: int,
        engine_type: EngineType,
        layout_hints: LayoutHints,
        engine_group_infos: List[EngineGroupInfo],
    ) -> None:
        self._call(
            "register_q_cache",
            instance_id,
            q_cache,
            model_name,
            world_size,
            engine_type,
            layout_hints,
            engine_group_infos,
        )

    @request_handler(HandlerType.SYNC)
    def unregister_q_cache(self, instance_id: int) -> None:
        self._call("unregister_q_cache", instance_id)

    @request_handler(HandlerType.BLOCKING, requires_client_affinity=True)
    def store_q(
        self,
        key: IPCCacheServerKey,
        instance_id: int,
        block_ids: List[List[int]],
        event_ipc_handle: bytes,
    ) -> Tuple[bytes, bool]:
        return self._call("store_q", key, instance_id, block_ids, event_ipc_handle)
