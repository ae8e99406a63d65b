"""Contract between the Python host (src/pyhost, C) and the package lmcache.

`_lmcache_host` is a built-in module that exists only in the interpreter inside lmcached. Part 1
is what the package may call; part 2 is what the host calls in `lmcache._bootstrap`. The package
must import without `_lmcache_host` (offline tests of plugins, runtime plugins).

Plain values. A message (struct of schema.def) is a dict member -> value with every member that
has a value, plus None for OPTIONAL / NULLABLE / EXTRA members without one. INT int, BOOL bool,
FLOAT float, TEXT str, TAG str (digits when it came as an integer), BYTES and DATA bytes,
TOKENS and INTS list[int] (TOKENS: None when only counted, or out of range), INT_LISTS
list[list[int]], BOOL_LISTS list[list[bool]], TEXTS list[str], BLOBS list[bytes], WRAPPERS
list[bytes] (contents of ext 1), MAP dict (decoded MessagePack), MESSAGE dict, LIST list[dict],
SPARSE_LIST list[dict | None], ENTRIES dict key -> value.

A dict is handed to the factory of set_message_types() for its message, if there is one, and the
result takes its place (at any depth). In the other direction a message may be a mapping or any
object whose attributes are the members; missing ones take their default. bytes members accept
bytes, bytearray and memoryview; int members accept bool and anything with __index__; TAG accepts
str, int and enum members (their value).

Calling a handler: a FRAMES request gives one positional argument per member, in order of
declaration; a MAP request (server_module_call,
register_kv_cache_engine_driven_context) one message. Only the first `arity` arguments are passed.
Results: BARE the value (None: still pending, where the operation has that), RESULT and TUPLE a
tuple, MAP a message, VOID None.
"""

from typing import Any, Callable, Optional, TypedDict, Union

# ---------------------------------------------------------------- part 1: _lmcache_host

class StartError(Exception):
    """Raise it in part 2 for a start-up failure whose text is complete: shown as it is, without
    a traceback. Any other exception is shown with its traceback in the log."""

VERSION: str  # of the server
SERVER_ARGV: list[str]
REHEARSAL: bool  # check-module or the conformance kit, not a server

# -- the log: one line each, in the server's format; line breaks split it. Never waits.
def log(level: int, logger: str, file: str, line: int, message: str) -> None: ...
def log_level(logger: str) -> int: ...  # effective, as of now (10, 20, ...)

# -- configuration
def config_json() -> str: ...
"""The plugin JSON (cli-config.md 5) with nothing masked: mp_config, coordinator_config, ...
`session_ttl_seconds` and `isolated_ipc` are in mp_config too."""
def server_modules_json() -> str: ...
"""[{"module_path", "config", "factory_name"?}, ...]: all specs of --server-module in order,
native ones included; `config` as the text it came in, so read it with json.loads."""

# -- schema
def set_message_types(types: dict[str, Callable[[dict[str, Any]], Any]]) -> None: ...
"""{"cache_key": factory, "engine_group_info": ..., "object_key": ..., "memory_layout_desc": ...,
"block_allocation_record": ..., "server_module_call_request": ...}; names as in schema.def."""
def operations() -> dict[str, dict[str, Any]]: ...
"""{"lookup": {"scheduling": "SYNC"|"BLOCKING"|"AFFINITY", "request": [(member, kind, presence,
part or None), ...], "request_form": "FRAMES"|"MAP", "reply": [...], "reply_form": "BARE"|"RESULT"|
"TUPLE"|"MAP"|"VOID", "legacy_id": 8, "pends": False}, ...}"""
def msgpack_pack(value: Any) -> bytes: ...
def msgpack_unpack(data: bytes) -> Any: ...  # ValueError

# -- other modules, built in or native, by class name ("LookupModule")
def built_modules() -> list[str]: ...  # C modules built so far, in construction order
def module_operations(module: str) -> list[str]: ...  # that this module handles
def call_operation(module: str, operation: str, args: tuple[Any, ...]) -> Any: ...
"""Runs that module's own handler, whoever else overrides the operation, with arguments and result
as plain values (args as a handler gets them; missing trailing ones take their default). Releases
the GIL; waits for a handler that answers later. RuntimeError(text) when it fails; KeyError when
the module has no such operation."""

# RuntimeError: the module keeps no state of workers. Release the GIL.
def touch_instance(module: str, instance_id: int) -> None: ...
def reap_stale_instances(module: str, timeout_s: float, grace_s: float) -> list[int]: ...
def tracked_instance_count(module: str) -> int: ...
def drop_instance_state(module: str, instance_id: int) -> None: ...

# -- hashing, sessions
HASH_SIZE: int  # 32
def chunk_size() -> int: ...
def hash_chunks(tokens: Any, previous: Optional[bytes] = None) -> list[bytes]: ...
"""Whole chunks of a sequence of token ids. ValueError for an id below 0 or above 2^32-1."""
def session_count() -> int: ...
def session_hashes(request_id: str, first: int = 0) -> list[bytes]: ...  # [] unknown session
def end_session(request_id: str) -> None: ...

# -- storage manager, layouts
def storage_status_json() -> str: ...  # the object `storage_manager` of /status
def clear(force: bool) -> None: ...
def memcheck() -> bool: ...
def memory_usage() -> dict[str, int]: ...
"""capacity_bytes, used_bytes, staging_bytes, resident_objects, staging_objects,
read_locked_objects"""
def objects_present(keys: list[dict[str, Any]]) -> list[bool]: ...  # object_key messages
class HeldObject:
    """The bytes of an object where they lie: a read-only buffer. It takes a read share of the
    object, which is given back by release() or when nobody looks at it any more."""
    def release(self) -> None: ...  # BufferError: a view of it exists
def object_hold(key: dict[str, Any]) -> Optional[HeldObject]: ...  # None: not in memory
def shm_pool() -> tuple[str, int]: ...  # ("", 0) when disabled
def model_layouts(model_name: str, world_size: int) -> list[dict[str, Any]]: ...
"""One per object group: {"bytes", "window", "dims": list[int], "dtype": "bfloat16", "is_extra"};
[] for an unknown model."""

# -- events. Names are those of http-observability.md 8 ("mp.lookup") or a module's own.
def subscribe(event_name: str, callback: Callable[[str, str, dict[str, Any], float], None],
              owner: str) -> None: ...
"""callback(event_name, session_id, metadata, timestamp) on the bus thread, in publish order.
owner: for the log. An exception is logged and counted. RuntimeError: there is no bus."""
def has_bus() -> bool: ...
def has_subscribers(event_name: str) -> bool: ...
def publish(event_name: str, session_id: str, metadata: dict[str, Any]) -> Optional[float]: ...
"""Never waits. The timestamp, or None when nobody has subscribed or it was dropped. Python
subscribers get this very dict; native ones its str, int and float members."""
def events_dropped() -> int: ...

# -- metrics of Python modules (lmcached_module_<owner>_<name>)
def metric_counter(owner: str, name: str, help: str, label: Optional[str]) -> Optional[object]: ...
def metric_gauge(owner: str, name: str, help: str, label: Optional[str]) -> Optional[object]: ...
def metric_add(metric: Optional[object], label_value: str, by: int) -> None: ...
def metric_set(metric: Optional[object], label_value: str, to: float) -> None: ...

# -- inside register_zmq() of part 2 only (RuntimeError elsewhere)
def zmq_add_handler(operation: str, handler_type: str, affinity: bool,
                    handler: Callable[..., Any], arity: int) -> None: ...
"""KeyError for an unknown operation. handler_type "SYNC" | "BLOCKING"."""
def zmq_add_pool(operations: list[str], max_workers: int, affinity: bool) -> None: ...
"""ValueError, TypeError with the texts of plugins.md 5.2."""
def zmq_handlers() -> dict[str, str]: ...  # operation -> "SYNC"|"BLOCKING"|"AFFINITY", winners

# ---------------------------------------------------------------- part 2: lmcache._bootstrap

class Operation(TypedDict):
    operation: str
    handler_type: str  # "SYNC" | "BLOCKING"; NON_BLOCKING is refused in create()
    affinity: bool
    handler: Callable[..., Any]  # bound; wrapped where plain values need converting
    arity: int
    qualname: str

class Envelope(TypedDict):
    method: str
    handler: Callable[[bytes], bytes]  # bound; called as handler(payload)

class Description(TypedDict):  # one per class, or one per legacy factory until it was called
    name: str  # module_name or class __name__; letters, digits, '_'; made unique
    dependencies: list[str]  # names: of built-ins their class name, of Python classes `name`
    deferred: bool
    version: Optional[str]
    module_path: str

class Built(TypedDict):
    instance: Any
    operations: list[Operation]
    envelopes: list[Envelope]
    # None where the instance is no liveness target; else the four bound methods in this order:
    # touch_instance, reap_stale_instances(timeout_s, grace_s), tracked_instance_count,
    # drop_instance_state
    liveness: Optional[tuple[Callable[..., Any], ...]]

    registers_zmq: bool  # whether register_zmq() is to be called
    registers_grpc: bool

class MadeModule(Description, Built):
    index: int  # for the functions below

class Made(TypedDict):
    made: list[MadeModule]

# All on the main thread unless it says otherwise, GIL held.
def setup() -> None: ...
"""First of all: sys.stdout and sys.stderr write whole lines to the log (INFO / ERROR, logger
"lmcache.python", bounded buffer for a line without end), sys.excepthook and threading.excepthook
write to the log, the root logger's handler goes to the server's log, message types."""
def load(builtin_names: list[str], native_names: list[str]) -> list[Description]: ...
"""Imports every dotted path of server_modules_json(), finds classes, checks dependencies (3.5:
texts), cycles among Python classes, duplicate paths, legacy factories. Order: command line, then
attribute name."""
def create(index: int) -> Union[Built, Made, None]: ...
"""Of load()'s list. None: not applicable. Validates what create() returned, annotations of its
handlers, envelope metadata. Made: what a legacy factory made, each an entry of its own."""
def register_zmq(index: int) -> None: ...  # calls register_zmq_services, if there is one
def register_grpc(index: int) -> None: ...  # LATER
def report_status(index: int) -> str: ...
"""Any one thread. JSON text of one object: keys made str, NaN as null; TypeError for a non-dict
with the text to show; "{}" when there is nothing to say."""
def close(index: int) -> None: ...  # once per built module
def stop_subscribers() -> None: ...
"""The bus has stopped, no module is closed yet: shutdown() of every register_subscriber()
object, each isolated."""
def finish(budget_s: float) -> list[str]: ...
"""Everything is closed: runs threading's exit functions (concurrent.futures), joins non-daemon
threads for at most budget_s together, then runs atexit functions; the names of the threads that
still run. Never raises."""
def describe_exception(error: BaseException) -> tuple[str, list[str]]: ...
"""Any thread. (text, traceback lines). text = str(error); never raises, whatever __str__ does."""
