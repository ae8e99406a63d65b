"""The server's storage as modules see it."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Tuple

from lmcache._bridge import host
from lmcache._installed import names_of
from lmcache.v1.distributed.api import ObjectKey, PrefetchHandle, PrefetchRequestSpec

__all__ = ["L1MemoryDesc", "StorageManager"]


class PrefetchLocks:
    """Objects that are held until somebody has read them, or no longer than the TTL."""

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl = ttl_seconds
        self._lock = threading.Lock()
        self._held: Dict[ObjectKey, List[Tuple[float, Any]]] = {}  # oldest first
        self._timer: Optional[threading.Timer] = None

    def add(self, found: Sequence[Tuple[ObjectKey, Any]]) -> None:
        until = time.monotonic() + self._ttl
        with self._lock:
            for key, held in found:
                self._held.setdefault(key, []).append((until, held))
            self._watch()

    def end(self, keys: Sequence[ObjectKey], count: int) -> None:
        with self._lock:
            for key in keys:
                locks = self._held.get(key, [])
                del locks[:count]
                if not locks:
                    self._held.pop(key, None)

    def end_all(self) -> None:
        with self._lock:
            self._held.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _watch(self) -> None:
        """Wakes up when the next lock has had its time."""
        if self._timer is not None or not self._held:
            return
        first = min(locks[0][0] for locks in self._held.values())
        self._timer = threading.Timer(max(0.01, first - time.monotonic()), self._expire)
        self._timer.daemon = True
        self._timer.name = "lmcache prefetch locks"
        self._timer.start()

    def _expire(self) -> None:
        with self._lock:
            now = time.monotonic()
            for key, locks in list(self._held.items()):
                locks[:] = [lock for lock in locks if lock[0] > now]
                if not locks:
                    del self._held[key]
            self._timer = None
            self._watch()


@dataclass(frozen=True)
class L1MemoryDesc:
    """The memory that objects lie in. ``ptr`` is 0: objects are read with ``unsafe_read``."""

    ptr: int
    size: int
    align_bytes: int
    shm_name: str = ""


class StorageManager:
    """Calls into the server's storage. Any thread; nothing here waits for other requests."""

    def __init__(self, align_bytes: int = 4096, read_ttl_seconds: float = 300.0) -> None:
        self._align_bytes = align_bytes
        self._listeners: List[Any] = []
        self._locks = PrefetchLocks(read_ttl_seconds)

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

    def unsafe_read(self, keys: Sequence[ObjectKey]) -> List[Optional[memoryview]]:
        """The bytes of objects where they lie, None for one that is not in memory. An object
        stays there as long as its view exists, so ``release()`` it soon."""
        hold = host("the storage manager").object_hold
        found = [hold(_plain(key)) for key in keys]
        return [None if one is None else memoryview(one) for one in found]

    # ---- prefetch: locks what is in memory for somebody who is about to read it ----

    def submit_prefetch_task(
        self, request: Any, request_id: str = "", *_rest: Any, **_options: Any
    ) -> PrefetchHandle:
        """Takes a lock on each of a set of objects, from the first on to the last that is in
        memory without a gap. They are given as ``PrefetchRequestSpec``, as list of keys or as a
        list of rows of keys. ``finish_read_prefetched`` ends the locks, or their TTL."""
        if isinstance(request, PrefetchRequestSpec):
            request, request_id = request.keys, request.request_id or request_id
        keys = list(_flat(request))
        hold = host("the storage manager").object_hold
        found = []
        for key in keys:
            held = hold(_plain(key))
            if held is None:
                break
            found.append((key, held))
        self._locks.add(found)
        return PrefetchHandle(request_id, keys, time.time(), len(found))

    def query_prefetch_status(self, handle: PrefetchHandle) -> int:
        """How many of the handle's objects, from the first on, were found and locked."""
        return handle.hits

    query_prefetch_lookup_hits = query_prefetch_status

    def finish_read_prefetched(self, keys: Sequence[ObjectKey], read_locks: int = 1) -> None:
        """Ends that many locks of each object that ``submit_prefetch_task`` has taken."""
        self._locks.end(list(_flat(keys)), max(1, read_locks))

    def end_prefetches(self) -> None:
        """Ends all locks; modules are about to be closed."""
        self._locks.end_all()

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
