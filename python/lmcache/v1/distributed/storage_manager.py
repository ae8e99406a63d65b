"""The server's storage as modules see it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence

from lmcache._bridge import host
from lmcache._installed import names_of
from lmcache.v1.distributed.api import ObjectKey, PrefetchHandle, PrefetchRequestSpec

__all__ = ["L1MemoryDesc", "StorageManager"]


@dataclass(frozen=True)
class L1MemoryDesc:
    """The memory that objects lie in. ``ptr`` is 0: objects are read with ``unsafe_read``."""

    ptr: int
    size: int
    align_bytes: int
    shm_name: str = ""


class StorageManager:
    """Calls into the server's storage. Any thread; nothing here waits for other requests."""

    def __init__(self, align_bytes: int = 4096) -> None:
        self._align_bytes = align_bytes
        self._listeners: List[Any] = []

    def report_status(self) -> Dict[str, Any]:
        """The object ``storage_manager`` of ``/status``."""
        return json.loads(host("the storage manager").storage_status_json())

    def memory_usage(self) -> Dict[str, int]:
        """``capacity_bytes``, ``used_bytes``, ``staging_bytes`` and numbers of objects."""
        return host("the storage manager").memory_usage()

    def clear(self, force: bool = False) -> None:
        """Empties memory; with ``force`` also what is locked."""
        host("the storage manager").clear(bool(force))

    def memcheck(self) -> bool:
        """Whether the allocator's books are in order."""
        return host("the storage manager").memcheck()

    def contains(self, keys: Sequence[ObjectKey]) -> List[bool]:
        """Which objects are in memory right now. Takes no lock."""
        return list(host("the storage manager").objects_present([_plain(key) for key in keys]))

    def unsafe_read(self, keys: Sequence[ObjectKey]) -> List[Optional[bytes]]:
        """Copies of objects, None for one that is not in memory. Takes no lock."""
        read = host("the storage manager").object_read
        return [read(_plain(key)) for key in keys]

    # ---- prefetch: of what is in memory, without locks ----

    def submit_prefetch_task(
        self, request: Any, request_id: str = "", *_rest: Any, **_options: Any
    ) -> PrefetchHandle:
        """Names a set of objects, given as ``PrefetchRequestSpec``, as list of keys or as a list
        of rows of keys. No object is locked; to lock what a request is about to retrieve, call
        ``lookup`` of the ``LookupModule``."""
        if isinstance(request, PrefetchRequestSpec):
            request, request_id = request.keys, request.request_id or request_id
        keys = list(_flat(request))
        return PrefetchHandle(request_id, keys, time.time())

    def query_prefetch_status(self, handle: PrefetchHandle) -> int:
        """How many of the handle's objects, from the first on, are in memory."""
        present = self.contains(handle.keys)
        return present.index(False) if False in present else len(present)

    query_prefetch_lookup_hits = query_prefetch_status

    def finish_read_prefetched(self, keys: Sequence[ObjectKey], read_locks: int = 1) -> None:
        """Nothing is locked by ``submit_prefetch_task``, so there is nothing to release."""

    # ---- the rest ----

    def register_l2_listener(self, listener: Any) -> None:
        """Methods of the listener named ``on_l2_keys_stored``, ``on_l2_keys_accessed`` and
        ``on_l2_keys_deleted`` are called with the keys of the events of those names."""
        from lmcache.v1.mp_observability.event_bus import get_event_bus

        for what in ("stored", "accessed", "deleted"):
            callback = getattr(listener, f"on_l2_keys_{what}", None)
            if callable(callback):
                get_event_bus().subscribe(f"l2.keys.{what}", _keys_of(callback))
        self._listeners.append(listener)

    @property
    def l1_memory_desc(self) -> L1MemoryDesc:
        name, _size = host("the storage manager").shm_pool()
        return L1MemoryDesc(0, self.memory_usage()["capacity_bytes"], self._align_bytes, name)


def _keys_of(callback: Any) -> Any:
    def call(event: Any) -> None:
        callback(event.metadata.get("keys", []))

    return call


def _flat(keys: Iterable[Any]) -> Iterable[ObjectKey]:
    for key in keys:
        if isinstance(key, ObjectKey):
            yield key
        else:
            yield from _flat(key)


def _plain(key: Any) -> Dict[str, Any]:
    """An object_key message."""
    return {
        "chunk_hash": key.chunk_hash,
        "model_name": key.model_name,
        "kv_rank": key.kv_rank,
        "object_group_id": key.object_group_id,
        "cache_salt": key.cache_salt,
    }


if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
