"""What all modules of one server share."""

from __future__ import annotations

import math
import threading
from typing import Any, Dict, Iterable, List, Optional, Tuple, TypedDict

from lmcache._bridge import host
from lmcache.v1.distributed.api import (
    AttnWindowDesc,
    MemoryLayoutDesc,
    ObjectKey,
    ipc_key_to_object_keys,
)
from lmcache.v1.distributed.storage_manager import StorageManager
from lmcache.v1.mp_observability.event_bus import EventBus, get_event_bus
from lmcache.v1.multiprocess.session import SessionManager
from lmcache.v1.multiprocess.token_hasher import TokenHasher

__all__ = ["LayoutDescRegistry", "MPCacheServerContext", "ShmPoolInfo"]

Model = Tuple[str, int]


class ShmPoolInfo(TypedDict):
    """``""`` and 0 where shared memory is off."""

    shm_name: str
    pool_size: int


class LayoutDescRegistry:
    """Layouts of objects by (model name, world size).

    Finds what workers have registered with the server, and what modules add here. Additions are
    counted: as many ``unregister`` as ``register`` calls remove one. Any thread.
    """

    def __init__(self, chunk_size: int = 256) -> None:
        self._chunk_size = chunk_size
        self._lock = threading.Lock()
        self._added: Dict[Model, Tuple[int, Dict[int, MemoryLayoutDesc], Any]] = {}

    def register(
        self, model_name: str, world_size: int, layout_desc: Any, attn_desc: Any = None
    ) -> None:
        """``layout_desc``: of the one object group, or a dict of them by group."""
        groups = layout_desc if isinstance(layout_desc, dict) else {0: layout_desc}
        with self._lock:
            count = self._added.get((model_name, world_size), (0,))[0]
            self._added[model_name, world_size] = (count + 1, dict(groups), attn_desc)

    def unregister(self, model_name: str, world_size: int) -> None:
        with self._lock:
            count, groups, attn = self._added.get((model_name, world_size), (0, {}, None))
            if count > 1:
                self._added[model_name, world_size] = (count - 1, groups, attn)
            else:
                self._added.pop((model_name, world_size), None)

    def find(self, model_name: str, world_size: int) -> Optional[MemoryLayoutDesc]:
        """The layout of the first object group; None for an unknown model."""
        groups = self.find_group_layout_descs(model_name, world_size)
        return groups[min(groups)] if groups else None

    def find_group_layout_descs(
        self, model_name: str, world_size: int
    ) -> Dict[int, MemoryLayoutDesc]:
        """Layouts by object group; empty for an unknown model."""
        known = self._known(model_name, world_size)
        if known:
            return {
                group: MemoryLayoutDesc([list(one["dims"])], [f"torch.{one['dtype']}"])
                for group, one in enumerate(known)
            }
        with self._lock:
            return dict(self._added.get((model_name, world_size), (0, {}))[1])

    def find_attn_desc(
        self, model_name: str, world_size: int, object_group_id: int = 0
    ) -> AttnWindowDesc:
        """The attention window of a group; ValueError for an unknown model or group."""
        known = self._known(model_name, world_size)
        if object_group_id < len(known):
            window = known[object_group_id]["window"]
            return AttnWindowDesc(max(0, int(window)))
        with self._lock:
            added = self._added.get((model_name, world_size))
        if added is None or (not known and object_group_id not in added[1]):
            raise ValueError(
                f"No layout is registered for model {model_name!r} with world size {world_size}, "
                f"object group {object_group_id}"
            )
        attn = added[2]
        return attn.get(object_group_id, AttnWindowDesc()) if isinstance(attn, dict) else (
            attn or AttnWindowDesc()
        )

    @staticmethod
    def _known(model_name: str, world_size: int) -> List[Dict[str, Any]]:
        return list(host("the layout registry").model_layouts(model_name, world_size))


class MPCacheServerContext:
    """One per server, the same for all modules. Its parts call into the server."""

    def __init__(self, mp_config: Any, storage_manager: Optional[StorageManager] = None) -> None:
        self.mp_config = mp_config
        self.chunk_size: int = mp_config.chunk_size
        self.token_hasher = TokenHasher(mp_config.chunk_size, mp_config.hash_algorithm)
        self.session_manager = SessionManager(
            mp_config.chunk_size, mp_config.session_ttl_seconds or math.inf
        )
        self.event_bus: EventBus = get_event_bus()
        self.storage_manager = storage_manager or StorageManager()
        self.layout_desc_registry = LayoutDescRegistry(mp_config.chunk_size)
        self.null_block_id: int = mp_config.null_block_id
        self.separate_object_groups: bool = mp_config.separate_object_groups
        self.full_sw_kv: bool = False

    @property
    def shm_pool_info(self) -> ShmPoolInfo:
        name, size = host("shared memory").shm_pool()
        return {"shm_name": name, "pool_size": size}

    def resolve_obj_keys(
        self, key: Any, object_group_ids: Iterable[int] = (0,)
    ) -> List[List[ObjectKey]]:
        """The objects of a worker's key, a list for each group, chunk by chunk."""
        if key.worker_id is None:
            raise ValueError("Must resolve keys with worker_id != None")
        hashes = self.token_hasher.compute_chunk_hashes(
            key.token_ids, start=key.start, end=key.end
        )
        return ipc_key_to_object_keys(key, hashes, object_group_ids)
