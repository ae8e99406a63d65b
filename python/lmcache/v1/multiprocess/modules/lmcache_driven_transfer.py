"""Transfers that the server carries out on the engine's device memory."""

from __future__ import annotations

from typing import List, Tuple

from lmcache.utils import EngineType
from lmcache.v1.kv_format.types import LayoutHints
from lmcache.v1.multiprocess.custom_types import DeviceIPCWrapper, IPCCacheServerKey
from lmcache.v1.multiprocess.group_view import EngineGroupInfo
from lmcache.v1.multiprocess.modules._builtin import BuiltinTransferModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

__all__ = ["LMCacheDrivenTransferModule"]


class LMCacheDrivenTransferModule(BuiltinTransferModule):
    stem = "lmcache_driven_transfer"

    @request_handler(HandlerType.SYNC)
    def register_kv_cache(
        self,
        instance_id: int,
        kv_cache: List[DeviceIPCWrapper],
        model_name: str,
        world_size: int,
        engine_type: EngineType,
        layout_hints: LayoutHints,
        engine_group_infos: List[EngineGroupInfo],
    ) -> None:
        self._call(
            "register_kv_cache",
            instance_id,
            kv_cache,
            model_name,
            world_size,
            engine_type,
            layout_hints,
            engine_group_infos,
        )

    @request_handler(HandlerType.SYNC)
    def unregister_kv_cache(self, instance_id: int) -> None:
        self._call("unregister_kv_cache", instance_id)

    @request_handler(HandlerType.BLOCKING, requires_client_affinity=True)
    def store(
        self,
        key: IPCCacheServerKey,
        instance_id: int,
        block_ids: List[List[int]],
        event_ipc_handle: bytes,
    ) -> Tuple[bytes, bool]:
        return self._call("store", key, instance_id, block_ids, event_ipc_handle)

    @request_handler(HandlerType.BLOCKING, requires_client_affinity=True)
    def retrieve(
        self,
        key: IPCCacheServerKey,
        instance_id: int,
        block_ids: List[List[int]],
        event_ipc_handle: bytes,
        skip_first_n_tokens: int,
    ) -> Tuple[bytes, bool]:
        return self._call(
            "retrieve", key, instance_id, block_ids, event_ipc_handle, skip_first_n_tokens
        )
