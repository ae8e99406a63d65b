"""Store and retrieve KV chunks as bytes, the way an engine-driven worker does (zmq-wire 9)."""

from __future__ import annotations

import logging
import secrets
import threading
from typing import List, Optional, Sequence, Union

from . import checks
from .client import Client
from .errors import NotRegistered, ProtocolError
from .messages import CacheKey, EngineDrivenContext, PreparedRetrieve, PreparedStore, Registration, Slot
from .pool import SharedPool
from .tensors import ITEM_SIZES, Buffer, Pieces, canonical_dtype, read_tensors, tensor_pieces, write_tensors

log = logging.getLogger("lmcached")


class Worker:
    """One KV shard of one engine instance.

    ``register()`` first. Chunks are given and returned as row-major bytes of ``chunk_shape``, one
    per full chunk of the key's range, in order. They travel through the server's shared-memory
    pool when it offers one that this process can map, else by byte copy; ``transport`` says which.
    All methods may be called from any thread; they run one at a time, so that a heartbeat can
    register again between two transfers.
    """

    def __init__(
        self,
        client: Client,
        model_name: str,
        *,
        num_layers: int,
        hidden_dim_size: int,
        dtype: str = "bfloat16",
        block_size: int = 16,
        use_mla: bool = False,
        world_size: int = 1,
        worker_id: int = 0,
        instance_id: Optional[int] = None,
        num_physical_slots: Optional[int] = None,
        byte_copy: bool = False,
        timeout: float = 60.0,
    ) -> None:
        self.client = client
        self.worker_id = checks.integer("worker_id", worker_id, 0, checks.integer("world_size", world_size, 1) - 1)
        self.timeout = checks.seconds("timeout", timeout)
        self.byte_copy = checks.boolean("byte_copy", byte_copy)
        self.dtype = canonical_dtype(dtype)
        self.context = EngineDrivenContext(
            instance_id=secrets.randbits(63) if instance_id is None else instance_id,
            model_name=model_name,
            world_size=world_size,
            block_size=block_size,
            num_layers=num_layers,
            hidden_dim_size=hidden_dim_size,
            dtype_str=self.dtype,
            use_mla=use_mla,
            num_physical_slots=num_physical_slots,
        )
        self.context.to_wire()  # raises for what is wrong in it
        self.chunk_size = client.get_chunk_size().result(timeout)
        slots = self.chunk_size if num_physical_slots is None else num_physical_slots
        self.chunk_shape = (num_layers, slots, hidden_dim_size)
        if not use_mla:
            self.chunk_shape = (2, *self.chunk_shape)
        self.chunk_bytes = ITEM_SIZES[self.dtype]
        for dim in self.chunk_shape:
            self.chunk_bytes *= dim
        self._pool: Optional[SharedPool] = None
        self._offered = False  # a pool, whether or not it can be mapped here
        self._registered = False
        self._lock = threading.RLock()

    @property
    def instance_id(self) -> int:
        return self.context.instance_id

    @property
    def transport(self) -> str:
        return "pickle" if self._pool is None else "shm"

    def register(self) -> None:
        """Registers, or registers again; safe to call at any time (see :class:`Heartbeat`)."""
        with self._lock:
            self._register()

    def _register(self) -> None:
        answer = self.client.register_engine_driven(self.context).result(self.timeout)
        self._registered = answer.error is None
        if answer.error is not None:
            self._drop_pool()
            raise NotRegistered(answer.error)
        self._offered = bool(answer.shm_name) and answer.pool_size > 0
        if self._pool is not None and not (self._offered and self._pool.is_still(answer.shm_name, answer.pool_size)):
            self._drop_pool()
        if self._offered and self._pool is None:
            self._map_pool(answer)
            if self._pool is None:
                self._ask_for_byte_copy()

    def _map_pool(self, answer: Registration) -> None:
        if self.byte_copy:
            return
        try:
            self._pool = SharedPool(answer.shm_name, answer.pool_size)
        except (OSError, ValueError) as error:
            log.warning("cannot map pool %s (%s): falling back to byte copy", answer.shm_name, error)

    def _ask_for_byte_copy(self) -> None:
        """A commit that brings bytes, here none, tells the server that the pool is out of reach;
        otherwise it would answer the first retrieve with slots that nobody here can read."""
        key = self.key([], f"register-{self.instance_id}")
        self.client.commit_store(key, self.instance_id, write_tensors([], self.dtype, ())).result(self.timeout)
        self.client.end_session(key.request_id).result(self.timeout)

    def unregister(self) -> None:
        with self._lock:
            self.client.unregister_engine_driven(self.instance_id).result(self.timeout)
            self._registered = False
            self._drop_pool()

    def _check_registered(self) -> None:
        if not self._registered:
            raise NotRegistered(f"instance {self.instance_id} is not registered: call register() first")

    def _drop_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def key(
        self, token_ids: Sequence[int], request_id: str, start: int = 0, end: Optional[int] = None, cache_salt: str = ""
    ) -> CacheKey:
        """A key of this worker; ``end`` defaults to the last full chunk."""
        tokens = checks.integers("token_ids", token_ids, 0, checks.TOKEN_MAX)
        full = len(tokens) - len(tokens) % self.chunk_size
        return CacheKey(
            self.context.model_name,
            self.context.world_size,
            self.worker_id,
            tokens,
            checks.integer("start", start, 0),
            full if end is None else checks.integer("end", end, 0),
            checks.text("request_id", request_id),
            checks.cache_salt(cache_salt),
        )

    def _chunk_count(self, key: CacheKey) -> int:
        return key.end // self.chunk_size - key.start // self.chunk_size

    def _check_key(self, key: CacheKey) -> None:
        """What the server would refuse without a text. An ``end`` inside a chunk is fine: only full
        chunks count, here as there."""
        if not isinstance(key, CacheKey):
            raise TypeError(f"key must be a CacheKey, not {type(key).__name__}")
        mine = (self.context.model_name, self.context.world_size)
        if (key.model_name, key.world_size) != mine:
            raise ValueError(f"the key is of {(key.model_name, key.world_size)}, this worker of {mine}")
        if checks.integer("start", key.start, 0) % self.chunk_size:
            below = key.start - key.start % self.chunk_size
            raise ValueError(
                f"start {key.start} is inside a chunk of {self.chunk_size} tokens:"
                f" {below} or {below + self.chunk_size} would be right"
            )
        count = len(key.token_ids)
        if checks.integer("end", key.end, key.start) > count:
            raise ValueError(f"end {key.end} is beyond the {count} token_ids: at most {count} would be right")

    # ---- store ----

    def store(self, key: CacheKey, chunks: Sequence[Buffer]) -> bool:
        """Stores the chunks of the key's range; those the server has already are skipped.

        False: the server refused. True: nothing failed, which does not say that every chunk is in the
        cache: a server without room takes the first ones that fit, or none, and one that is cleared
        forgets. A lookup (``client.lookup_chunks``) tells what is there. NotRegistered: ``register()``
        comes first, or the server had dropped this instance and does not take it again. ValueError:
        no server would take this key, or these chunks.
        """
        self._check_key(key)
        if len(chunks) != self._chunk_count(key):
            raise ValueError(f"the range has {self._chunk_count(key)} chunks, not {len(chunks)}")
        views = [self._view_of(chunk) for chunk in chunks]
        with self._lock:
            self._check_registered()
            return self._store(key, views) if views else True

    def _view_of(self, chunk: Buffer) -> memoryview:
        """Its bytes, before anything is reserved for them. Arrays must be contiguous."""
        view = memoryview(chunk)
        if not view.c_contiguous:
            raise ValueError("a chunk must lie in one piece, row by row")
        if view.nbytes != self.chunk_bytes:
            raise ValueError(f"a chunk has {self.chunk_bytes} bytes, not {view.nbytes}")
        return view.cast("B")

    def _store(self, key: CacheKey, chunks: Sequence[Buffer]) -> bool:
        prepared = self._prepare_store(key)
        if prepared.slots == []:
            return self._offered  # in the pool there is nothing to write; byte copy is never told so
        data: Union[bytes, Pieces] = b""
        if prepared.slots is not None and self._pool is not None:
            self._write_slots(prepared, chunks)
        else:
            data = tensor_pieces(chunks, self.dtype, self.chunk_shape)
        return self.client.commit_store(key, self.instance_id, data).result(self.timeout)

    def _prepare_store(self, key: CacheKey) -> PreparedStore:
        """No slots means that there is nothing to write, but also that the server does not know this
        instance (it restarted, or dropped a silent worker). Registering again rules that out."""
        prepared = self.client.prepare_store(key, self.instance_id).result(self.timeout)
        if prepared.slots == []:
            self._register()
            prepared = self.client.prepare_store(key, self.instance_id).result(self.timeout)
        return prepared

    def _write_slots(self, prepared: PreparedStore, chunks: Sequence[Buffer]) -> None:
        assert self._pool is not None and prepared.slots is not None
        for slot, index in zip(prepared.slots, prepared.chunk_indices):
            if index >= len(chunks):
                raise ProtocolError(f"slot for chunk {index} of {len(chunks)}")
            self._pool.write(slot, chunks[index])

    # ---- retrieve ----

    def retrieve(self, key: CacheKey) -> Optional[List[bytes]]:
        """The chunks of the key's range, or None when any of them is missing; a chunk that ``end``
        cuts through does not count. None also when the server had dropped this instance, which is
        then registered again for the next time. NotRegistered: ``register()`` comes first, or the
        server does not take the instance again. ValueError: no server would take this key.
        """
        self._check_key(key)
        with self._lock:
            self._check_registered()
            return self._retrieve(key) if self._chunk_count(key) else []

    def _retrieve(self, key: CacheKey) -> Optional[List[bytes]]:
        prepared = self.client.prepare_retrieve(key, self.instance_id).result(self.timeout)
        try:
            if prepared.success:
                return self._read(prepared, self._chunk_count(key))
        finally:
            self.client.commit_retrieve(key, self.instance_id).result(self.timeout)
        # Not tried twice: each miss gives back locks, which on the original server may be another's.
        self._register()
        return None

    def _read(self, prepared: PreparedRetrieve, count: int) -> Optional[List[bytes]]:
        if prepared.data:
            tensors = read_tensors(prepared.data)
            self._check_count(len(tensors), count)
            return [tensor.tobytes() for tensor in tensors]
        if not prepared.slots or self._pool is None:
            return None
        self._check_count(len(prepared.slots), count)
        return [self._read_slot(slot) for slot in prepared.slots]

    def _read_slot(self, slot: Slot) -> bytes:
        assert self._pool is not None
        return self._pool.read(slot)

    @staticmethod
    def _check_count(got: int, expected: int) -> None:
        if got != expected:
            raise ProtocolError(f"{got} chunks arrived instead of {expected}")
