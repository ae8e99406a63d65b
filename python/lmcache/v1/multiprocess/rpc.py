"""The operations of the protocol: what their handlers take and answer with."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from lmcache.utils import EngineType
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.transfer_channel.api import TransferChannelAddress
from lmcache.v1.kv_format.types import LayoutHints
from lmcache.v1.multiprocess.custom_types import (
    BlockAllocationRecord,
    CBMatchResult,
    CBUnifiedLookupResult,
    DeviceIPCWrapper,
    IPCCacheServerKey,
    PrepareRetrieveResponse,
    PrepareStoreResponse,
    RegisterEngineDrivenContextPayload,
    RegisterEngineDrivenContextResponse,
    SessionEndInfo,
)
from lmcache.v1.multiprocess.group_view import EngineGroupInfo
from lmcache.v1.multiprocess.protocols.server_module import (
    ServerModuleCallRequest,
    ServerModuleCallResponse,
)
from lmcache.v1.multiprocess.request_handler import HandlerType

__all__ = ["RpcOperation", "RpcSpec", "get_rpc_spec", "get_rpc_specs", "rpc_method"]

RpcOperation = str

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class RpcSpec:
    """One operation. ``older_payload_types``: other parameter lists that are accepted."""

    operation: RpcOperation
    payload_types: Tuple[Any, ...]
    response_type: Any
    handler_type: HandlerType = HandlerType.BLOCKING
    requires_client_affinity: bool = False
    older_payload_types: Tuple[Tuple[Any, ...], ...] = ()

    @property
    def accepted_payload_types(self) -> Tuple[Tuple[Any, ...], ...]:
        return (self.payload_types, *self.older_payload_types)


def rpc_method(operation: Optional[str] = None) -> Callable[[F], F]:
    """Marks a client's method with the operation that it calls."""

    def declare(function: F) -> F:
        function.__lmcache_rpc_operation__ = operation or function.__name__  # type: ignore
        return function

    return declare


_KEY = IPCCacheServerKey
_BLOCKS = List[List[int]]
_RESULT = Tuple[bytes, bool]
_GROUPS = List[EngineGroupInfo]
_REGISTRATION = (int, List[DeviceIPCWrapper], str, int, EngineType, LayoutHints, _GROUPS)


def _sync(operation: str, payload: Tuple[Any, ...], response: Any) -> RpcSpec:
    return RpcSpec(operation, payload, response, HandlerType.SYNC)


def _normal(operation: str, payload: Tuple[Any, ...], response: Any, *older: Any) -> RpcSpec:
    return RpcSpec(operation, payload, response, older_payload_types=older)


def _affine(operation: str, payload: Tuple[Any, ...], response: Any) -> RpcSpec:
    return RpcSpec(operation, payload, response, requires_client_affinity=True)


_SPECS = (
    _sync("register_kv_cache", _REGISTRATION, None),
    _sync("unregister_kv_cache", (int,), None),
    _sync("register_q_cache", _REGISTRATION, None),
    _sync("unregister_q_cache", (int,), None),
    _affine("store_q", (_KEY, int, _BLOCKS, bytes), _RESULT),
    _affine("store", (_KEY, int, _BLOCKS, bytes), _RESULT),
    _affine("retrieve", (_KEY, int, _BLOCKS, bytes, int), _RESULT),
    _normal("lookup", (_KEY, int), None),
    _normal("query_prefetch_status", (str,), Optional[int]),
    _normal("wait_prefetch_status", (str, float), Optional[int]),
    _normal("query_prefetch_lookup_hits", (str,), Optional[int]),
    _normal("free_lookup_locks", (_KEY, int), None),
    _normal("end_session", (str, SessionEndInfo), None, (str,)),
    _sync(
        "register_kv_cache_engine_driven_context",
        (RegisterEngineDrivenContextPayload,),
        RegisterEngineDrivenContextResponse,
    ),
    _sync("unregister_kv_cache_engine_driven_context", (int,), None),
    _affine("prepare_store", (_KEY, int), PrepareStoreResponse),
    _affine("commit_store", (_KEY, int, bytes), bool),
    _affine("prepare_retrieve", (_KEY, int), PrepareRetrieveResponse),
    _affine("commit_retrieve", (_KEY, int), bool),
    _normal("clear", (bool,), None, ()),
    _sync("get_chunk_size", (), int),
    _normal("ping", (Optional[int],), bool),
    _normal("report_block_allocation", (int, str, List[BlockAllocationRecord]), None),
    _sync("noop", (), str),
    _sync(
        "cb_register_rope",
        (int, List[DeviceIPCWrapper], int, bool, List[int], List[List[int]], List[int]),
        None,
    ),
    _sync("cb_unregister_rope", (int,), None),
    _affine(
        "cb_retrieve_pre_computed",
        (_KEY, List[CBMatchResult], _BLOCKS, int, bytes),
        _RESULT,
    ),
    _normal("cb_unified_lookup", (_KEY, int), Optional[CBUnifiedLookupResult]),
    _normal(
        "p2p_lookup_and_lock",
        (List[ObjectKey], Dict[int, MemoryLayoutDesc]),
        int,
        (List[ObjectKey], MemoryLayoutDesc),
    ),
    _normal("p2p_query_lookup_results", (int,), Optional[List[TransferChannelAddress]]),
    _normal("p2p_unlock_objects", (List[ObjectKey],), None),
    _sync("get_experimental", (), List[str]),
    _sync("cb_protocol_handshake", (int,), Tuple[int, bool]),
    _normal("poll_kv_events", (str, int, int), Any),
    _normal("server_module_call", (ServerModuleCallRequest,), ServerModuleCallResponse),
    _sync("negotiate_chunk_size", (int,), int),
    _affine("store_with_chunk_events", (_KEY, int, _BLOCKS, bytes), Any),
    _normal("release_chunk_store_events", (int, str), None),
)

_BY_NAME = {spec.operation: spec for spec in _SPECS}


class UnknownOperationError(KeyError):
    """No operation has that name."""

    def __str__(self) -> str:
        return str(self.args[0])


def operation_name(operation: Any) -> str:
    """The name of an operation given as a name, an enum member or a spec."""
    if isinstance(operation, RpcSpec):
        return operation.operation
    if isinstance(operation, enum.Enum):
        return operation.name.lower()
    return str(operation)


def get_rpc_spec(operation: Any) -> RpcSpec:
    """The contract of an operation; KeyError for an unknown one."""
    name = operation_name(operation)
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownOperationError(name) from None


def get_rpc_specs() -> Tuple[RpcSpec, ...]:
    return _SPECS
