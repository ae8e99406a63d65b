"""The values that travel in requests and replies, and their MessagePack form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import checks
from .errors import ProtocolError


@dataclass(frozen=True)
class CacheKey:
    """Names the chunks of one token range of one request (zmq-wire 7.1).

    ``token_ids`` is the whole prefix from position 0. ``worker_id`` is None in scheduler-side
    calls (lookup, free_lookup_locks) and the shard's index in transfers. The members are checked
    when a call is made with the key.
    """

    model_name: str
    world_size: int
    worker_id: Optional[int]
    token_ids: Sequence[int]
    start: int
    end: int
    request_id: str
    cache_salt: str = ""
    request_configs: Optional[Mapping[str, Any]] = None
    num_kv_readers: int = 1
    null_chunk_mask: Optional[Sequence[Sequence[bool]]] = None

    def to_wire(self) -> Dict[str, Any]:
        """The map that the server reads; all eleven members, in declaration order."""
        ranks = checks.integer("world_size", self.world_size, 1)
        configs = self.request_configs
        start = checks.integer("start", self.start, 0)
        return {
            "model_name": checks.model_name(self.model_name),
            "world_size": ranks,
            "worker_id": checks.optional_integer("worker_id", self.worker_id, 0, ranks - 1),
            "token_ids": checks.integers("token_ids", self.token_ids, 0, checks.TOKEN_MAX),
            "start": start,
            "end": checks.integer("end", self.end, start),
            "request_id": checks.text("request_id", self.request_id),
            "cache_salt": checks.cache_salt(self.cache_salt),
            "request_configs": None if configs is None else dict(checks.mapping("request_configs", configs)),
            "num_kv_readers": checks.integer("num_kv_readers", self.num_kv_readers, 0),
            "null_chunk_mask": self._mask_to_wire(),
        }

    def _mask_to_wire(self) -> Optional[List[List[bool]]]:
        if self.null_chunk_mask is None:
            return None
        rows = [checks.sequence("null_chunk_mask", row) for row in checks.sequence("null_chunk_mask", self.null_chunk_mask)]
        return [[checks.boolean("an item of null_chunk_mask", item) for item in row] for row in rows]

    def to_transfer(self) -> Dict[str, Any]:
        """As :meth:`to_wire`, for the calls that move chunks: those name a worker and stay within the
        tokens."""
        if self.worker_id is None:
            raise ValueError("a transfer needs a key with a worker_id: see for_worker")
        wire = self.to_wire()
        if self.end > len(wire["token_ids"]):
            raise ValueError(f"end {self.end} is beyond the {len(wire['token_ids'])} token_ids")
        return wire

    def with_range(self, start: int, end: int) -> "CacheKey":
        return replace(self, start=start, end=end)

    def for_worker(self, worker_id: Optional[int]) -> "CacheKey":
        return replace(self, worker_id=worker_id)


@dataclass(frozen=True)
class EngineGroup:
    """One KV group of a hybrid model (zmq-wire 7.2)."""

    engine_group_id: int
    layer_indices: Sequence[int] = ()
    tokens_per_block: int = 0
    sw_size_tokens: int = -1
    extra_object_group_tag: int = 0
    recurrent_state: bool = False

    def to_wire(self) -> Dict[str, Any]:
        whole = checks.integer
        return {
            "engine_group_id": whole("engine_group_id", self.engine_group_id),
            "layer_indices": checks.integers("layer_indices", self.layer_indices),
            "tokens_per_block": whole("tokens_per_block", self.tokens_per_block),
            "sw_size_tokens": whole("sw_size_tokens", self.sw_size_tokens),
            "extra_object_group_tag": whole("extra_object_group_tag", self.extra_object_group_tag),
            "recurrent_state": checks.boolean("recurrent_state", self.recurrent_state),
        }


@dataclass(frozen=True)
class EngineDrivenContext:
    """How the chunks of one engine instance are laid out (zmq-wire 7.4)."""

    instance_id: int
    model_name: str
    world_size: int
    block_size: int
    num_layers: int
    hidden_dim_size: int
    dtype_str: str
    use_mla: bool
    num_physical_slots: Optional[int] = None
    engine_group_infos: Sequence[EngineGroup] = ()
    group_hidden_dim_sizes: Optional[Sequence[int]] = None
    group_layout_descs: Optional[Sequence[Optional[Mapping[str, Any]]]] = None
    enable_l1_kvweave_quant: bool = False

    def to_wire(self) -> Dict[str, Any]:
        sizes, layouts = self.group_hidden_dim_sizes, self.group_layout_descs
        groups = checks.members("engine_group_infos", self.engine_group_infos, EngineGroup)
        return {
            "instance_id": checks.integer("instance_id", self.instance_id),
            "model_name": checks.model_name(self.model_name),
            "world_size": checks.integer("world_size", self.world_size, 1),
            "block_size": checks.integer("block_size", self.block_size),
            "num_layers": checks.integer("num_layers", self.num_layers),
            "hidden_dim_size": checks.integer("hidden_dim_size", self.hidden_dim_size),
            "dtype_str": checks.text("dtype_str", self.dtype_str),
            "use_mla": checks.boolean("use_mla", self.use_mla),
            "num_physical_slots": checks.optional_integer("num_physical_slots", self.num_physical_slots),
            "engine_group_infos": [group.to_wire() for group in groups],
            "group_hidden_dim_sizes": None if sizes is None else checks.integers("group_hidden_dim_sizes", sizes),
            "group_layout_descs": None if layouts is None else [self._layout(desc) for desc in layouts],
            "enable_l1_kvweave_quant": checks.boolean("enable_l1_kvweave_quant", self.enable_l1_kvweave_quant),
        }

    @staticmethod
    def _layout(desc: Any) -> Optional[Dict[str, Any]]:
        return None if desc is None else dict(checks.mapping("group_layout_descs", desc))


@dataclass(frozen=True)
class Registration:
    """Answer to an engine-driven registration. An empty ``shm_name`` means byte copy."""

    shm_name: str = ""
    pool_size: int = 0
    scratch_offset: int = 0
    scratch_size: int = 0
    error: Optional[str] = None


@dataclass(frozen=True)
class Slot:
    """Where one chunk lies in the shared pool."""

    offset: int
    length: int
    shape: Tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class PreparedStore:
    """``slots`` is None in byte-copy form; empty means that nothing needs to be written, or that the
    server refused (it does not know the instance): :class:`Worker` finds out which."""

    slots: Optional[List[Slot]]
    chunk_indices: List[int] = field(default_factory=list)


@dataclass(frozen=True)
class PreparedRetrieve:
    success: bool
    data: bytes
    slots: List[Slot]


@dataclass(frozen=True)
class BlockAllocationRecord:
    req_id: str
    new_block_ids: Sequence[int]
    new_token_ids: Sequence[int]

    def to_wire(self) -> Dict[str, Any]:
        return {
            "req_id": checks.text("req_id", self.req_id),
            "new_block_ids": checks.integers("new_block_ids", self.new_block_ids),
            "new_token_ids": checks.integers("new_token_ids", self.new_token_ids),
        }


@dataclass(frozen=True)
class ServerModuleCallRequest:
    """Calls ``method`` of a server module with opaque bytes."""

    method: str
    payload: bytes = b""

    def to_wire(self) -> Dict[str, Any]:
        payload = bytes(checks.data("payload", self.payload))
        return {"method": checks.text("method", self.method), "payload": payload}


@dataclass(frozen=True)
class ServerModuleCallResponse:
    success: bool
    payload: bytes
    error: str


# ---- reading replies: unknown members are ignored, missing ones take their defaults ----


def _member(value: Mapping[str, Any], name: str, kind: Any, default: Any) -> Any:
    found = value.get(name, default)
    if found is default or isinstance(found, kind):
        return found
    raise ProtocolError(f"member {name!r} is {type(found).__name__}")


def _map(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ProtocolError(f"expected a map, got {type(value).__name__}")
    return value


def read_registration(value: Any) -> Registration:
    fields = _map(value)
    return Registration(
        shm_name=_member(fields, "shm_name", str, ""),
        pool_size=_member(fields, "pool_size", int, 0),
        scratch_offset=_member(fields, "scratch_offset", int, 0),
        scratch_size=_member(fields, "scratch_size", int, 0),
        error=_member(fields, "error", str, None),
    )


def _read_slot(value: Any) -> Slot:
    fields = _map(value)
    shape = _member(fields, "shape", list, [])
    if not all(isinstance(dim, int) for dim in shape):
        raise ProtocolError("a slot's shape is not a list of integers")
    return Slot(
        offset=_member(fields, "offset", int, -1),
        length=_member(fields, "length", int, -1),
        shape=tuple(shape),
        dtype=_member(fields, "dtype", str, ""),
    )


def _read_slots(context: Mapping[str, Any]) -> Optional[List[Slot]]:
    slots = _member(context, "slots", list, None)
    return None if slots is None else [_read_slot(slot) for slot in slots]


def read_prepared_store(value: Any) -> PreparedStore:
    context = _map(_map(value).get("context") or {})
    slots = _read_slots(context)
    indices = _member(context, "chunk_indices", list, [])
    if not all(isinstance(index, int) and index >= 0 for index in indices):
        raise ProtocolError("chunk_indices is not a list of chunk positions")
    if slots is not None and len(indices) != len(slots):
        raise ProtocolError(f"{len(slots)} slots but {len(indices)} chunk indices")
    return PreparedStore(slots, indices)


def read_prepared_retrieve(value: Any) -> PreparedRetrieve:
    fields = _map(value)
    context = _map(fields.get("context") or {})
    return PreparedRetrieve(
        success=_member(fields, "success", bool, False),
        data=_member(fields, "data", bytes, b""),
        slots=_read_slots(context) or [],
    )


def read_server_module_call(value: Any) -> ServerModuleCallResponse:
    fields = _map(value)
    return ServerModuleCallResponse(
        success=_member(fields, "success", bool, False),
        payload=_member(fields, "payload", bytes, b""),
        error=_member(fields, "error", str, ""),
    )


def read_transfer(value: Any) -> Tuple[bytes, bool]:
    """The `[handle, ok]` of store and retrieve."""
    if (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], bytes)
        and isinstance(value[1], bool)
    ):
        return value[0], value[1]
    raise ProtocolError("expected [bytes, bool]")
