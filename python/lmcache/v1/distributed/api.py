"""Keys and layouts of stored objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Sequence

from lmcache._installed import names_of
from lmcache._messages import message

__all__ = [
    "AttnWindowDesc",
    "DEFAULT_ATTN_WINDOW_DESC",
    "MemoryLayoutDesc",
    "ObjectKey",
    "PrefetchHandle",
    "PrefetchRequestSpec",
    "ipc_key_to_object_keys",
]


@dataclass(frozen=True)
class ObjectKey:
    """One stored object: a chunk's share of one rank and object group."""

    chunk_hash: bytes
    model_name: str
    kv_rank: int
    object_group_id: int = 0
    cache_salt: str = ""

    @staticmethod
    def compute_kv_rank(world_size: int, worker_id: int) -> int:
        """``kv_rank`` of a shard."""
        return world_size << 24 | worker_id << 16 | world_size << 8 | worker_id

    @property
    def world_size(self) -> int:
        return self.kv_rank >> 24

    @property
    def worker_id(self) -> int:
        return self.kv_rank >> 16 & 0xFF


@dataclass
class MemoryLayoutDesc:
    """The tensors of one object: a shape and a type such as ``"torch.bfloat16"`` for each."""

    shapes: List[Sequence[int]]
    dtypes: List[Any]


@dataclass(frozen=True)
class AttnWindowDesc:
    """How much of the past a group attends to, in chunks; 0: all of it."""

    window_chunks: int = 0

    @property
    def is_full_attention(self) -> bool:
        return self.window_chunks <= 0


DEFAULT_ATTN_WINDOW_DESC = AttnWindowDesc()


@message
class PrefetchRequestSpec:
    """What is to be fetched: for each chunk in order, the objects that make it up."""

    keys: List[List[ObjectKey]]
    request_id: str = ""
    layout_descs: Optional[List[Any]] = None


@dataclass
class PrefetchHandle:
    """Names a prefetch that was submitted. ``hits``: objects found, from the first on."""

    request_id: str
    keys: List[ObjectKey] = field(default_factory=list)
    submitted: float = 0.0
    hits: int = 0


def ipc_key_to_object_keys(
    key: Any,
    chunk_hashes: Sequence[bytes],
    object_group_ids: Iterable[int] = (0,),
) -> List[List[ObjectKey]]:
    """The objects of each group, chunk by chunk; for every shard where the key names none."""
    ranks = range(key.world_size) if key.worker_id is None else (key.worker_id,)
    return [
        [
            ObjectKey(
                bytes(chunk_hash),
                key.model_name,
                ObjectKey.compute_kv_rank(key.world_size, rank),
                group,
                key.cache_salt,
            )
            for chunk_hash in chunk_hashes
            for rank in ranks
        ]
        for group in object_group_ids
    ]


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
