"""Messages that handlers of operations get and answer with."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from lmcache._installed import names_of
from lmcache._messages import message
from lmcache.v1.multiprocess.group_view import EngineGroupInfo

__all__ = [
    "BlockAllocationRecord",
    "CBMatchResult",
    "CBUnifiedLookupResult",
    "DeviceIPCWrapper",
    "IPCCacheServerKey",
    "NO_SESSION_END_INFO",
    "PrepareRetrieveResponse",
    "PrepareStoreResponse",
    "RegisterEngineDrivenContextPayload",
    "RegisterEngineDrivenContextResponse",
    "SessionEndInfo",
]


@dataclass(frozen=True, eq=False)
class IPCCacheServerKey:
    """The chunks of one token range of a request.

    Two keys are equal when they name the same chunks: ``request_id``, ``request_configs``,
    ``num_kv_readers`` and ``null_chunk_mask`` do not count.
    """

    model_name: str
    world_size: int
    worker_id: Optional[int]  # None: every shard
    token_ids: Sequence[int]  # the whole prefix, from position 0
    start: int
    end: int
    request_id: str
    cache_salt: str = ""
    request_configs: Optional[Mapping[str, Any]] = None
    num_kv_readers: int = 0
    null_chunk_mask: Optional[Sequence[Sequence[bool]]] = None

    @classmethod
    def from_members(cls, members: Dict[str, Any]) -> "IPCCacheServerKey":
        """Takes a dict with every member as it is: handlers get many keys, each with many ids."""
        key = object.__new__(cls)
        key.__dict__.update(members)
        return key

    def identity(self) -> Tuple[Any, ...]:
        """The members that count for equality."""
        ids = self.token_ids
        return (
            self.model_name,
            self.world_size,
            self.worker_id,
            None if ids is None else tuple(ids),
            self.start,
            self.end,
            self.cache_salt,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IPCCacheServerKey):
            return NotImplemented
        return self.identity() == other.identity()

    def __hash__(self) -> int:
        return hash(self.identity())

    def no_worker_id_version(self) -> "IPCCacheServerKey":
        """The same key for every shard, as schedulers send it."""
        return replace(self, worker_id=None)


IPCCacheEngineKey = IPCCacheServerKey  # older name


class DeviceIPCWrapper(bytes):
    """A tensor of another process: the bytes that its owner sent. Opening it needs torch."""

    def to_tensor(self) -> Any:
        """Unpickles the sender's wrapper object and opens the tensor. Only for trusted peers."""
        try:
            import torch  # noqa: F401
        except ImportError:
            text = "a tensor of another process can be opened with torch only"
            raise RuntimeError(text) from None
        return pickle.loads(self).to_tensor()


CudaIPCWrapper = DeviceIPCWrapper  # older name


@message
class BlockAllocationRecord:
    """Blocks and tokens that a request got in one scheduling step."""

    req_id: str
    new_block_ids: List[int]
    new_token_ids: List[int]


@message
class PrepareStoreResponse:
    """``context``: "slots" and "chunk_indices" of shared memory; empty for byte copy."""

    context: Dict[str, Any]


@message
class PrepareRetrieveResponse:
    success: bool
    data: bytes
    context: Dict[str, Any]


@message
class RegisterEngineDrivenContextPayload:
    """How the chunks of an engine-driven worker are laid out."""

    instance_id: int
    model_name: str
    world_size: int
    block_size: int
    num_layers: int
    hidden_dim_size: int
    dtype_str: str
    use_mla: bool
    num_physical_slots: Optional[int] = None
    engine_group_infos: List[EngineGroupInfo] = field(default_factory=list)
    group_hidden_dim_sizes: Optional[List[int]] = None
    group_layout_descs: Optional[List[Optional[Any]]] = None
    enable_l1_kvweave_quant: bool = False
    kernel_groups: Optional[List[Dict[str, Any]]] = None


@message
class RegisterEngineDrivenContextResponse:
    """An empty ``shm_name`` means byte copy; ``error``: the worker is not registered."""

    shm_name: str = ""
    pool_size: int = 0
    scratch_offset: int = 0
    scratch_size: int = 0
    error: Optional[str] = None


@message(frozen=True)
class SessionEndInfo:
    """How a request ended, as far as the engine tells."""

    finish_reason: str = ""
    stop_token_id: Optional[int] = None


NO_SESSION_END_INFO = SessionEndInfo()


@message
class CBMatchResult:
    """A segment that is cached at another position than it is wanted at (blend)."""

    old_st: int
    old_ed: int
    cur_st: int
    cur_ed: int
    hash: bytes


@message
class CBUnifiedLookupResult:
    prefix_coverage_tokens: int
    non_prefix_segments: List[CBMatchResult] = field(default_factory=list)
    segmented_prefix_segments: List[CBMatchResult] = field(default_factory=list)


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
