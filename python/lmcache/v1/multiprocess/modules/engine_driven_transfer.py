"""Transfers that the engine's worker carries out itself, over shared memory or byte copy."""

from __future__ import annotations

from lmcache.v1.multiprocess.custom_types import (
    IPCCacheServerKey,
    PrepareRetrieveResponse,
    PrepareStoreResponse,
    RegisterEngineDrivenContextPayload,
    RegisterEngineDrivenContextResponse,
)
from lmcache.v1.multiprocess.modules._builtin import BuiltinTransferModule
from lmcache.v1.multiprocess.request_handler import HandlerType, request_handler

__all__ = ["EngineDrivenTransferModule"]


class EngineDrivenTransferModule(BuiltinTransferModule):
    stem = "engine_driven_transfer"

    @request_handler(HandlerType.SYNC)
    def register_kv_cache_engine_driven_context(
        self, payload: RegisterEngineDrivenContextPayload
    ) -> RegisterEngineDrivenContextResponse:
        operation = "register_kv_cache_engine_driven_context"
        return self._call(operation, payload, reply=f"{operation}_reply")

    @request_handler(HandlerType.SYNC)
    def unregister_kv_cache_engine_driven_context(self, instance_id: int) -> None:
        self._call("unregister_kv_cache_engine_driven_context", instance_id)

    @request_handler(HandlerType.BLOCKING, requires_client_affinity=True)
    def prepare_store(self, key: IPCCacheServerKey, instance_id: int) -> PrepareStoreResponse:
        return self._call("prepare_store", key, instance_id, reply="prepare_store_reply")

    @request_handler(HandlerType.BLOCKING, requires_client_affinity=True)
    def commit_store(self, key: IPCCacheServerKey, instance_id: int, data: bytes) -> bool:
        return self._call("commit_store", key, instance_id, data)

    @request_handler(HandlerType.BLOCKING, requires_client_affinity=True)
    def prepare_retrieve(
        self, key: IPCCacheServerKey, instance_id: int
    ) -> PrepareRetrieveResponse:
        return self._call("prepare_retrieve", key, instance_id, reply="prepare_retrieve_reply")

    @request_handler(HandlerType.BLOCKING, requires_client_affinity=True)
    def commit_retrieve(self, key: IPCCacheServerKey, instance_id: int) -> bool:
        return self._call("commit_retrieve", key, instance_id)
